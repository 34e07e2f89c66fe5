// cuBLAS: its products are counted by name. Its types do not matter here: handles are addresses,
// and 0 is success and every default.
#include "null_gpu.h"

static thread_local std::map<void*, cudaStream_t> blas_streams;
#define BLAS(name, arguments, ...) \
  API int name arguments {         \
    __VA_ARGS__;                   \
    return 0;                      \
  }
// It reads the handle alone, whatever the sizes and the matrices are
#define PRODUCT(name)                         \
  API int name(void* handle, ...) {           \
    LOCK;                                     \
    note_kernel(blas_streams[handle], #name); \
    return 0;                                 \
  }
BLAS(cublasCreate_v2, (void** h), *h = (void*)(next_handle += 16))
BLAS(cublasDestroy_v2, (void*))
BLAS(cublasSetStream_v2, (void* h, cudaStream_t s), blas_streams[h] = s)
BLAS(cublasSetWorkspace_v2, (void*, void*, size_t))
BLAS(cublasSetMathMode, (void*, int))
BLAS(cublasGetMathMode, (void*, int* mode), *mode = 0)
BLAS(cublasGetPointerMode_v2, (void*, int* mode), *mode = 0)
BLAS(cublasSetPointerMode_v2, (void*, int))
BLAS(cublasSetSmCountTarget, (void*, int))
PRODUCT(cublasGemmEx)
PRODUCT(cublasSgemm_v2)
PRODUCT(cublasDgemm_v2)
PRODUCT(cublasSgemmStridedBatched)
PRODUCT(cublasGemmStridedBatchedEx)
PRODUCT(cublasSgemv_v2)
PRODUCT(cublasSdot_v2)
PRODUCT(cublasDotEx)

API size_t cublasLtGetVersion() { return 130100; }
BLAS(cublasLtCreate, (void** h), *h = (void*)1)
#define DESCRIPTOR(sort)                                                        \
  BLAS(cublasLt##sort##Create, (void** made, ...), *made = calloc(1, 512))      \
  BLAS(cublasLt##sort##Destroy, (void* made), free(made))                       \
  BLAS(cublasLt##sort##SetAttribute, (void*, int, const void*, size_t))
DESCRIPTOR(MatmulDesc)
DESCRIPTOR(MatmulPreference)
DESCRIPTOR(MatrixLayout)
// One algorithm: 96 bytes, in which 0 is success
BLAS(cublasLtMatmulAlgoGetHeuristic,
     (void*, void*, void*, void*, void*, void*, void*, int, void* results, int* number),
     memset(results, 0, 96); *number = 1)
BLAS(cublasLtMatmul,
     (void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*,
      void*, size_t, cudaStream_t stream),
     LOCK; note_kernel(stream, "cublasLtMatmul"))
