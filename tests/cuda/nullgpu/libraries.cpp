// cuBLAS, cuDNN and NCCL: their calls are counted.
#include "null_gpu.h"

// --- cuBLAS
static thread_local std::map<cublasHandle_t, cudaStream_t> blas_streams;
API cublasStatus_t cublasCreate_v2(cublasHandle_t* h) {
  LOCK;
  *h = (cublasHandle_t)(next_handle += 16);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasDestroy_v2(cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; }
API cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s) {
  blas_streams[h] = s;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
API cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t* m) {
  *m = CUBLAS_DEFAULT_MATH;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t, cublasPointerMode_t* m) {
  *m = CUBLAS_POINTER_MODE_HOST;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t, cublasPointerMode_t) {
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasSetSmCountTarget(cublasHandle_t, int) { return CUBLAS_STATUS_SUCCESS; }
static cublasStatus_t product(cublasHandle_t h, std::string what) {
  LOCK;
  note_kernel(blas_streams[h], what);
  return CUBLAS_STATUS_SUCCESS;
}
static std::string sized(const char* n, cublasOperation_t ta, cublasOperation_t tb, int m, int k,
                         int nn, int lda, int ldb, int ldc, int t) {
  char b[200];
  snprintf(b, sizeof b, "%s %s%s m=%d n=%d k=%d ld=%d,%d,%d type=%d", n, ta ? "T" : "N",
           tb ? "T" : "N", m, nn, k, lda, ldb, ldc, t);
  return b;
}
API cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                                int n, int k, const void*, const void*, cudaDataType ty, int lda,
                                const void*, cudaDataType, int ldb, const void*, void*,
                                cudaDataType, int ldc, cublasComputeType_t, cublasGemmAlgo_t) {
  return product(h, sized("gemm", ta, tb, m, k, n, lda, ldb, ldc, ty));
}
API cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                  int m, int n, int k, const float*, const float*, int lda,
                                  const float*, int ldb, const float*, float*, int ldc) {
  return product(h, sized("sgemm", ta, tb, m, k, n, lda, ldb, ldc, 0));
}
API cublasStatus_t cublasDgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                  int m, int n, int k, const double*, const double*, int lda,
                                  const double*, int ldb, const double*, double*, int ldc) {
  return product(h, sized("dgemm", ta, tb, m, k, n, lda, ldb, ldc, 1));
}
API cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta,
                                             cublasOperation_t tb, int m, int n, int k,
                                             const float*, const float*, int lda, long long,
                                             const float*, int ldb, long long, const float*, float*,
                                             int ldc, long long, int) {
  return product(h, sized("sgemm batched", ta, tb, m, k, n, lda, ldb, ldc, 0));
}
API cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta,
                                              cublasOperation_t tb, int m, int n, int k,
                                              const void*, const void*, cudaDataType ty, int lda,
                                              long long, const void*, cudaDataType, int ldb,
                                              long long, const void*, void*, cudaDataType, int ldc,
                                              long long, int, cublasComputeType_t,
                                              cublasGemmAlgo_t) {
  return product(h, sized("gemm batched", ta, tb, m, k, n, lda, ldb, ldc, ty));
}
API cublasStatus_t cublasSgemv_v2(cublasHandle_t h, cublasOperation_t, int, int, const float*,
                                  const float*, int, const float*, int, const float*, float*, int) {
  return product(h, "sgemv");
}
API cublasStatus_t cublasSdot_v2(cublasHandle_t h, int, const float*, int, const float*, int,
                                 float*) {
  return product(h, "sdot");
}
API cublasStatus_t cublasDotEx(cublasHandle_t h, int, const void*, cudaDataType, int, const void*,
                               cudaDataType, int, void*, cudaDataType, cudaDataType) {
  return product(h, "dot");
}
API size_t cublasLtGetVersion() { return 130100; }
API cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
  *h = (cublasLtHandle_t)1;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t,
                                            cudaDataType_t) {
  *d = (cublasLtMatmulDesc_t)calloc(1, 512);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  free(d);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t,
                                                  cublasLtMatmulDescAttributes_t, const void*,
                                                  size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* d) {
  *d = (cublasLtMatmulPreference_t)calloc(1, 512);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t d) {
  free(d);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                        cublasLtMatmulPreferenceAttributes_t,
                                                        const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* d, cudaDataType, uint64_t,
                                              uint64_t, int64_t) {
  *d = (cublasLtMatrixLayout_t)calloc(1, 512);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t d) {
  free(d);
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t,
                                                    cublasLtMatrixLayoutAttribute_t, const void*,
                                                    size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                  cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                  cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                  cublasLtMatmulPreference_t, int,
                                                  cublasLtMatmulHeuristicResult_t r[], int* n) {
  memset(r, 0, sizeof *r);
  r->state = CUBLAS_STATUS_SUCCESS;
  *n = 1;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t, const void*,
                                  const void*, cublasLtMatrixLayout_t, const void*,
                                  cublasLtMatrixLayout_t, const void*, const void*,
                                  cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
                                  const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t s) {
  LOCK;
  note_kernel(s, "cublasLt matmul");
  return CUBLAS_STATUS_SUCCESS;
}

// --- cuDNN: graphs of operators, as torch builds them for attention
typedef int cudnnS;
typedef void* cudnnH;
typedef void* cudnnD;
static std::map<void*, cudaStream_t> dnn_streams;
API cudnnS cudnnCreate(cudnnH* h) {
  LOCK;
  *h = (void*)(next_handle += 16);
  return 0;
}
API cudnnS cudnnDestroy(cudnnH) { return 0; }
API cudnnS cudnnSetStream(cudnnH h, cudaStream_t s) {
  LOCK;
  dnn_streams[h] = s;
  return 0;
}
API cudnnS cudnnGetStream(cudnnH h, cudaStream_t* s) {
  LOCK;
  *s = dnn_streams[h];
  return 0;
}
API size_t cudnnGetVersion() { return 92000; }
API size_t cudnnGetCudartVersion() { return 13000; }
API const char* cudnnGetErrorString(cudnnS) { return "cuDNN of the null GPU"; }
API void cudnnGetLastErrorString(char* s, size_t n) {
  if (n) s[0] = 0;
}
API cudnnS cudnnBackendCreateDescriptor(int, cudnnD* d) {
  LOCK;
  *d = (void*)(next_handle += 16);
  return 0;
}
API cudnnS cudnnBackendDestroyDescriptor(cudnnD) { return 0; }
API cudnnS cudnnBackendSetAttribute(cudnnD, int, int, int64_t, const void*) { return 0; }
API cudnnS cudnnBackendFinalize(cudnnD) { return 0; }
API cudnnS cudnnBackendGetAttribute(cudnnD, int name, int type, int64_t asked, int64_t* n,
                                    void* out) {
  if (n) *n = 1;
  if (out && type == 3 && asked > 0)
    *(int64_t*)out = 0;  // CUDNN_TYPE_INT64
  else if (out && type != 15 && asked > 0 && asked < 64)
    memset(out, 0, 4);
  return 0;
}
API cudnnS cudnnBackendExecute(cudnnH h, cudnnD, cudnnD) {
  LOCK;
  note_kernel(dnn_streams[h], "cudnn graph");
  return 0;
}

// --- NCCL: every process is taken to hold what this one holds
typedef int ncclR;
typedef void* ncclC;
API ncclR ncclGetVersion(int* v) {
  *v = 22907;
  return 0;
}
API ncclR ncclGetUniqueId(void* id) {
  memset(id, 7, 128);
  return 0;
}
API const char* ncclGetErrorString(ncclR) { return "NCCL of the null GPU"; }
API const char* ncclGetLastError(ncclC) { return ""; }
struct Comm {
  int n, rank;
};
struct Id {
  char bytes[128];
};
API ncclR ncclCommInitRankConfig(ncclC* c, int n, Id, int rank, void*) {
  *c = new Comm{n, rank};
  return 0;
}
API ncclR ncclCommInitRank(ncclC* c, int n, Id, int rank) {
  *c = new Comm{n, rank};
  return 0;
}
API ncclR ncclCommInitRankScalable(ncclC* c, int n, int rank, int, void*, void*) {
  *c = new Comm{n, rank};
  return 0;
}
API ncclR ncclCommSplit(ncclC of, int, int, ncclC* c, void*) {
  *c = new Comm(*(Comm*)of);
  return 0;
}
API ncclR ncclCommDestroy(ncclC) { return 0; }
API ncclR ncclCommAbort(ncclC) { return 0; }
API ncclR ncclCommFinalize(ncclC) { return 0; }
API ncclR ncclCommGetAsyncError(ncclC, ncclR* e) {
  *e = 0;
  return 0;
}
API ncclR ncclCommCount(ncclC c, int* n) {
  *n = ((Comm*)c)->n;
  return 0;
}
API ncclR ncclCommUserRank(ncclC c, int* n) {
  *n = ((Comm*)c)->rank;
  return 0;
}
API ncclR ncclCommRegister(ncclC, void*, size_t, void**) { return 0; }
API ncclR ncclCommDeregister(ncclC, void*) { return 0; }
API ncclR ncclGroupStart() { return 0; }
API ncclR ncclGroupEnd() { return 0; }
static size_t width(int type) {
  static const int of[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return of[type];
}
API ncclR ncclAllReduce(const void* a, void* b, size_t n, int t, int, ncclC, cudaStream_t s) {
  LOCK;
  note_kernel(s, "nccl all-reduce");
  if (a != b) memcpy(b, a, n * width(t));
  return 0;
}
API ncclR ncclBroadcast(const void* a, void* b, size_t n, int t, int, ncclC, cudaStream_t s) {
  LOCK;
  note_kernel(s, "nccl broadcast");
  if (a != b) memcpy(b, a, n * width(t));
  return 0;
}
API ncclR ncclBcast(void*, size_t, int, int, ncclC, cudaStream_t s) {
  LOCK;
  note_kernel(s, "nccl broadcast");
  return 0;
}
API ncclR ncclAllGather(const void* a, void* b, size_t n, int t, ncclC c, cudaStream_t s) {
  LOCK;
  note_kernel(s, "nccl all-gather");
  for (int i = 0; i < ((Comm*)c)->n; i++) memmove((char*)b + i * n * width(t), a, n * width(t));
  return 0;
}
API ncclR ncclReduceScatter(const void*, void*, size_t, int, int, ncclC, cudaStream_t s) {
  LOCK;
  note_kernel(s, "nccl reduce-scatter");
  return 0;
}
API ncclR ncclReduce(const void*, void*, size_t, int, int, int, ncclC, cudaStream_t s) {
  LOCK;
  note_kernel(s, "nccl reduce");
  return 0;
}
