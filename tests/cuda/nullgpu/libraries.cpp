// cuBLAS: its calls are counted.
#include "null_gpu.h"

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
// A sort of descriptor: what fills it, and what it is made of
#define DESCRIPTOR(sort, attribute, ...)                                            \
  API cublasStatus_t cublasLt##sort##Create(cublasLt##sort##_t* d, ##__VA_ARGS__) { \
    *d = (cublasLt##sort##_t)calloc(1, 512);                                        \
    return CUBLAS_STATUS_SUCCESS;                                                   \
  }                                                                                 \
  API cublasStatus_t cublasLt##sort##Destroy(cublasLt##sort##_t d) {                \
    free(d);                                                                        \
    return CUBLAS_STATUS_SUCCESS;                                                   \
  }                                                                                 \
  API cublasStatus_t cublasLt##sort##SetAttribute(cublasLt##sort##_t, attribute,    \
                                                  const void*, size_t) {            \
    return CUBLAS_STATUS_SUCCESS;                                                   \
  }
DESCRIPTOR(MatmulDesc, cublasLtMatmulDescAttributes_t, cublasComputeType_t, cudaDataType_t)
DESCRIPTOR(MatmulPreference, cublasLtMatmulPreferenceAttributes_t)
DESCRIPTOR(MatrixLayout, cublasLtMatrixLayoutAttribute_t, cudaDataType, uint64_t, uint64_t, int64_t)
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
