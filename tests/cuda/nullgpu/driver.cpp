// The driver: contexts, modules and launches, as Triton calls them.
#include "null_gpu.h"

API void nullgpu_reset();

// --- the driver
static std::map<CUfunction, std::string> driver_names;
API CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
API CUresult cuDriverGetVersion(int* v) {
  *v = 13000;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGet(CUdevice* d, int n) {
  *d = n;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetCount(int* n) {
  *n = 1;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetName(char* s, int n, CUdevice) {
  snprintf(s, n, "%s", card().name.c_str());
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetAttribute(int* v, CUdevice_attribute a, CUdevice) {
  *v = attribute(int(a));
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* f, int* active) {
  *f = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice) {
  *c = (CUcontext)0x77;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetCurrent(CUcontext* c) {
  *c = (CUcontext)0x77;
  return CUDA_SUCCESS;
}
API CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
API CUresult cuCtxGetLimit(size_t* v, CUlimit) {
  *v = 1 << 20;
  return CUDA_SUCCESS;
}
API CUresult cuCtxSetLimit(CUlimit, size_t) { return CUDA_SUCCESS; }
API CUresult cuGetErrorString(CUresult, const char** s) {
  *s = "error of the null GPU";
  return CUDA_SUCCESS;
}
API CUresult cuGetErrorName(CUresult, const char** s) {
  *s = "NULLGPU";
  return CUDA_SUCCESS;
}
API CUresult cuModuleLoadData(CUmodule* m, const void* image) {
  LOCK;
  *m = (CUmodule)(next_handle += 16);
  tick("modules loaded");
  return CUDA_SUCCESS;
}
API CUresult cuModuleLoadDataEx(CUmodule* m, const void* i, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(m, i);
}
API CUresult cuModuleLoad(CUmodule* m, const char*) { return cuModuleLoadData(m, nullptr); }
API CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
API CUresult cuModuleGetFunction(CUfunction* f, CUmodule, const char* name) {
  LOCK;
  *f = (CUfunction)(next_handle += 16);
  driver_names[*f] = name;
  return CUDA_SUCCESS;
}
API CUresult cuFuncGetAttribute(int* v, CUfunction_attribute a, CUfunction) {
  *v = a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
       : a == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 64
                                                    : 0;
  return CUDA_SUCCESS;
}
API CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, CUfunction, int, size_t) {
  *n = 4;
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyMaxActiveClusters(int* n, CUfunction, const CUlaunchConfig*) {
  *n = 4;
  return CUDA_SUCCESS;
}
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
API CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                    const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                    const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_SUCCESS;
}
API CUresult cuTensorMapEncodeIm2col(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                     const cuuint64_t*, const cuuint64_t*, const int*, const int*,
                                     cuuint32_t, cuuint32_t, const cuuint32_t*,
                                     CUtensorMapInterleave, CUtensorMapSwizzle,
                                     CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_SUCCESS;
}
API CUresult cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState*) { return CUDA_SUCCESS; }
API CUresult cuLinkAddData_v2(CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned,
                              CUjit_option*, void**) {
  return CUDA_SUCCESS;
}
API CUresult cuLinkComplete(CUlinkState, void**, size_t*) { return CUDA_SUCCESS; }
API CUresult cuMemGetAddressRange_v2(CUdeviceptr* b, size_t* n, CUdeviceptr p) {
  LOCK;
  auto it = device_blocks.upper_bound((char*)p);
  --it;
  if (b) *b = (CUdeviceptr)it->first;
  if (n) *n = it->second;
  return CUDA_SUCCESS;
}
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
