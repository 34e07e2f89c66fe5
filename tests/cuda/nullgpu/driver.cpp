// The driver: contexts, modules and launches, as Triton calls them.
#include "null_gpu.h"

API void nullgpu_reset();

// --- the driver
static std::map<CUfunction, std::string> driver_names;
DRIVER(cuInit, (unsigned))
DRIVER(cuDriverGetVersion, (int* v), *v = 13000)
DRIVER(cuDeviceGet, (CUdevice* d, int n), *d = n)
DRIVER(cuDeviceGetCount, (int* n), *n = 1)
DRIVER(cuDeviceGetAttribute, (int* v, CUdevice_attribute a, CUdevice), *v = attribute(int(a)))
DRIVER(cuDevicePrimaryCtxGetState, (CUdevice, unsigned* f, int* active), *f = 0; *active = 1)
DRIVER(cuDevicePrimaryCtxRetain, (CUcontext* c, CUdevice), *c = (CUcontext)0x77)
DRIVER(cuCtxGetCurrent, (CUcontext* c), *c = (CUcontext)0x77)
DRIVER(cuCtxSetCurrent, (CUcontext))
DRIVER(cuCtxGetLimit, (size_t* v, CUlimit), *v = 1 << 20)
DRIVER(cuCtxSetLimit, (CUlimit, size_t))
DRIVER(cuGetErrorString, (CUresult, const char** s), *s = "error of the null GPU")
DRIVER(cuGetErrorName, (CUresult, const char** s), *s = "NULLGPU")
DRIVER(cuModuleLoadData,
       (CUmodule* m, const void* image), *m = (CUmodule)(next_handle += 16); tick("modules loaded"))
API CUresult cuModuleLoadDataEx(CUmodule* m, const void* i, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(m, i);
}
API CUresult cuModuleLoad(CUmodule* m, const char*) { return cuModuleLoadData(m, nullptr); }
DRIVER(cuModuleUnload, (CUmodule))
DRIVER(cuModuleGetFunction,
       (CUfunction* f, CUmodule, const char* name), *f = (CUfunction)(next_handle += 16);
       driver_names[*f] = name)
API CUresult cuFuncGetAttribute(int* v, CUfunction_attribute a, CUfunction) {
  *v = a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
       : a == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 64
                                                    : 0;
  return CUDA_SUCCESS;
}
DRIVER(cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int))
DRIVER(cuFuncSetCacheConfig, (CUfunction, CUfunc_cache))
DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int* n, CUfunction, int, size_t), *n = 4)
DRIVER(cuOccupancyMaxActiveClusters, (int* n, CUfunction, const CUlaunchConfig*), *n = 4)
static CUresult drive(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned sh, CUstream s) {
  if (check_grid(dim3(gx, gy, gz), dim3(bx, by, bz), sh)) return CUDA_ERROR_INVALID_VALUE;
  if (sh > shared_optin()) {
    LOCK;
    tick("too much shared memory");
    return CUDA_ERROR_INVALID_VALUE;
  }
  LOCK;
  note_kernel((cudaStream_t)s, driver_names.count(f) ? driver_names[f] : "?");
  return CUDA_SUCCESS;
}
API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned sh, CUstream s, void**, void**) {
  return drive(f, gx, gy, gz, bx, by, bz, sh, s);
}
API CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                       unsigned bx, unsigned by, unsigned bz, unsigned sh,
                                       CUstream s, void**) {
  return drive(f, gx, gy, gz, bx, by, bz, sh, s);
}
API CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void**, void**) {
  return drive(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
               c->sharedMemBytes, c->hStream);
}
API CUresult cuPointerGetAttribute(void* out, CUpointer_attribute a, CUdeviceptr p) {
  if (a == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
    *(CUdeviceptr*)out = p;
  else if (a == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    *(unsigned*)out = 2;
  else
    *(unsigned long long*)out = 0;
  return CUDA_SUCCESS;
}
DRIVER(cuTensorMapEncodeTiled,
       (CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
       const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
       CUtensorMapL2promotion, CUtensorMapFloatOOBfill))
DRIVER(cuTensorMapEncodeIm2col,
       (CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
       const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave,
       CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill))
DRIVER(cuLinkCreate_v2, (unsigned, CUjit_option*, void**, CUlinkState*))
DRIVER(cuLinkAddData_v2,
       (CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned, CUjit_option*, void**))
DRIVER(cuLinkComplete, (CUlinkState, void**, size_t*))
API cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** p, unsigned,
                                                 unsigned long long,
                                                 cudaDriverEntryPointQueryResult* r) {
  static void* self = [] {
    Dl_info i;
    dladdr((void*)&nullgpu_reset, &i);
    return dlopen(i.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  *p = dlsym(self, name);
  if (!*p) *p = dlsym(self, (std::string(name) + "_v2").c_str());
  // a few that only exist so that torch finds all of its table: never called here
  if (!*p)
    *p = (void*)+[]() -> CUresult {
      fprintf(stderr, "nullgpu: an unknown driver function was called\n");
      abort();
    };
  if (r) *r = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
