// The runtime: cards, memory, streams, events, graphs and launches.
#include "null_gpu.h"

// --- figures
// Forget what was counted
API void nullgpu_reset() {
  LOCK;
  counters.clear();
  kernels.clear();
}
// Write "number<TAB>name" lines of calls (0) or kernels (1) to `out`; return their length in bytes
API size_t nullgpu_dump(char* out, size_t size, int which) {
  LOCK;
  std::string s;
  for (auto& [k, v] : (which ? kernels : counters)) s += std::to_string(v) + "\t" + k + "\n";
  strncpy(out, s.c_str(), size);
  return s.size() + 1;
}

// --- devices
RUNTIME(cudaGetDeviceCount, (int* n), *n = 1)
RUNTIME(cudaGetDevice, (int* d), *d = 0)
API cudaError_t cudaSetDevice(int d) {
  return d ? fail(cudaErrorInvalidDevice) : cudaSuccess;
}
RUNTIME(cudaDriverGetVersion, (int* v), *v = 13000)
RUNTIME(cudaRuntimeGetVersion, (int* v), *v = 13000)
API cudaError_t cudaGetLastError() {
  cudaError_t e = last_error;
  last_error = cudaSuccess;
  return e;
}
API cudaError_t cudaPeekAtLastError() { return last_error; }
RUNTIME(cudaDeviceSynchronize, (), UNSAFE("cudaDeviceSynchronize"); tick("sync: device"))
RUNTIME(cudaDeviceGetPCIBusId, (char* s, int n, int d), snprintf(s, n, "0000:%02x:00.0", d + 1))
RUNTIME(cudaDeviceGetStreamPriorityRange, (int* a, int* b), *a = 0; *b = -5)
API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int d) {
  memset(p, 0, sizeof *p);
  Card c = card();
  strncpy(p->name, c.name.c_str(), sizeof p->name - 1);
  p->uuid.bytes[0] = d + 1;
  p->totalGlobalMem = size_t(c.gb * 1e9);
  p->sharedMemPerBlock = 49152;
  p->regsPerBlock = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->major = c.sm / 10;
  p->minor = c.sm % 10;
  p->multiProcessorCount = c.sms;
  p->pciBusID = d + 1;
  p->l2CacheSize = 50 << 20;
  p->maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  p->sharedMemPerMultiprocessor = shared_sm();
  p->regsPerMultiprocessor = 65536;
  p->sharedMemPerBlockOptin = shared_optin();
  return cudaSuccess;
}
static int threads_of_multiprocessor() { return card().sm == 75 ? 1024 : 2048; }
// By their numbers in cudaDeviceAttr; 0 of all others
int attribute(int a) {
  static const std::map<int, int> values = {
      {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535},
      {8, 49152}, {9, 65536}, {10, 32}, {12, 65536}, {13, 1980000}, {16, card().sms}, {31, 1},
      {36, 2619000}, {37, 5120}, {38, 50 << 20}, {39, threads_of_multiprocessor()}, {40, 3},
      {41, 1}, {75, card().sm / 10}, {76, card().sm % 10}, {78, 1}, {81, int(shared_sm())},
      {82, 65536}, {95, 1}, {97, int(shared_optin())}, {106, 32}, {111, 1024}};
  auto it = values.find(a);
  return it == values.end() ? 0 : it->second;
}
RUNTIME(cudaDeviceGetAttribute, (int* v, cudaDeviceAttr a, int), *v = attribute(int(a)))
RUNTIME(cudaDeviceGetDefaultMemPool, (cudaMemPool_t* p, int), *p = (cudaMemPool_t)1)
RUNTIME(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode* m), std::swap(*m, thread_mode))

// --- memory
API cudaError_t cudaMalloc(void** p, size_t n) {
  LOCK;
  UNSAFE("cudaMalloc");
  *p = nullptr;
  if (used + n > size_t(card().gb * 1e9)) return fail(cudaErrorMemoryAllocation);
  void* m =
      mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED) return fail(cudaErrorMemoryAllocation);
  device_blocks[(char*)m] = n;
  used += n;
  *p = m;
  tick("cudaMalloc");
  return cudaSuccess;
}
API cudaError_t cudaFree(void* p) {
  LOCK;
  if (p == nullptr) return cudaSuccess;
  UNSAFE("cudaFree");
  auto it = device_blocks.find((char*)p);
  if (it == device_blocks.end()) return cudaSuccess;
  munmap(p, it->second);
  used -= it->second;
  device_blocks.erase(it);
  tick("cudaFree");
  return cudaSuccess;
}
RUNTIME(cudaMemGetInfo, (size_t* f, size_t* t), *t = size_t(card().gb * 1e9); *f = *t - used)
API cudaError_t cudaHostAlloc(void** p, size_t n, unsigned) {
  LOCK;
  UNSAFE("cudaHostAlloc");
  *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
  host_blocks[(char*)*p] = n;
  tick("cudaHostAlloc");
  return cudaSuccess;
}
RUNTIME(cudaFreeHost, (void* p), host_blocks.erase((char*)p); free(p))
RUNTIME(cudaHostRegister, (void* p, size_t n, unsigned), host_blocks[(char*)p] = n)
RUNTIME(cudaHostUnregister, (void* p), host_blocks.erase((char*)p))
API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  LOCK;
  memset(a, 0, sizeof *a);
  bool d = in_blocks(device_blocks, p), h = in_blocks(host_blocks, p);
  a->type = d ? cudaMemoryTypeDevice : h ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  a->devicePointer = d ? (void*)p : nullptr;
  a->hostPointer = d ? nullptr : (void*)p;
  return cudaSuccess;
}
static cudaError_t copy(void* d, const void* s, size_t n, cudaMemcpyKind k, cudaStream_t st,
                        bool async) {
  LOCK;
  bool from_device = in_blocks(device_blocks, s), to_device = in_blocks(device_blocks, d);
  bool pageable =
      (!from_device && !in_blocks(host_blocks, s)) || (!to_device && !in_blocks(host_blocks, d));
  const char* what = from_device && to_device ? "copy: device to device"
                     : from_device            ? "copy: to host"
                     : to_device              ? "copy: to device"
                                              : "copy: host";
  auto it = capturing.find(st);
  if (it != capturing.end()) {
    if (!async || (pageable && !(from_device && to_device))) {
      it->second->invalid = true;
      tick((std::string("forbidden in capture: ") + what).c_str());
      return fail(cudaErrorStreamCaptureUnsupported);
    }
    it->second->graph->copies++;
    return cudaSuccess;
  }
  if (!async) UNSAFE("cudaMemcpy");
  tick(what);
  if (pageable && !(from_device && to_device))
    tick((std::string(what) + ", pageable: the host waits").c_str());
  memcpy(d, s, n);
  return cudaSuccess;
}
API cudaError_t cudaMemcpy(void* d, const void* s, size_t n, cudaMemcpyKind k) {
  return copy(d, s, n, k, 0, false);
}
API cudaError_t cudaMemcpyAsync(void* d, const void* s, size_t n, cudaMemcpyKind k,
                                cudaStream_t st) {
  return copy(d, s, n, k, st, true);
}
RUNTIME(cudaMemset,
        (void* p, int v, size_t n), UNSAFE("cudaMemset"); memset(p, v, n); tick("memset"))
API cudaError_t cudaMemsetAsync(void* p, int v, size_t n, cudaStream_t s) {
  LOCK;
  if (capturing.count(s)) {
    capturing[s]->graph->copies++;
    return cudaSuccess;
  }
  tick("memset");
  if (n < (64u << 20)) memset(p, v, n);
  return cudaSuccess;
}
RUNTIME(cudaMemcpyToSymbol, (const void*, const void*, size_t, size_t, cudaMemcpyKind))
API cudaError_t cudaGetSymbolAddress(void** p, const void*) {
  static char room[1 << 20];
  *p = room;
  return cudaSuccess;
}

// --- streams and events
RUNTIME(cudaStreamCreateWithPriority,
        (cudaStream_t* s, unsigned, int), *s = (cudaStream_t)(next_handle += 16))
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  return cudaStreamCreateWithPriority(s, 0, 0);
}
API cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithPriority(s, 0, 0); }
RUNTIME(cudaStreamDestroy, (cudaStream_t))
RUNTIME(cudaStreamGetPriority, (cudaStream_t, int* p), *p = 0)
RUNTIME(cudaStreamQuery, (cudaStream_t s), WAIT(s, "query: stream"))
RUNTIME(cudaStreamSynchronize, (cudaStream_t s), WAIT(s, "sync: stream"))
API cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  LOCK;
  auto it = captured_events.find(e);
  if (it != captured_events.end() && it->second) {
    capturing[s] = it->second;
    return cudaSuccess;
  }
  if (capturing.count(s) && (it == captured_events.end() || !it->second)) {
    capturing[s]->invalid = true;
    tick("forbidden in capture: wait for an event of outside");
    return fail(cudaErrorStreamCaptureIsolation);
  }
  return cudaSuccess;
}
RUNTIME(cudaEventCreateWithFlags,
        (cudaEvent_t* e, unsigned f), *e = (cudaEvent_t)(next_handle += 16))
API cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
RUNTIME(cudaEventDestroy, (cudaEvent_t e), captured_events.erase(e))
API cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  LOCK;
  auto it = capturing.find(s);
  captured_events[e] = it == capturing.end() ? nullptr : it->second;
  return cudaSuccess;
}
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned) {
  return cudaEventRecord(e, s);
}
API cudaError_t cudaEventQuery(cudaEvent_t e) {
  LOCK;
  if (captured_events.count(e) && captured_events[e]) {
    captured_events[e]->invalid = true;
    tick("forbidden in capture: cudaEventQuery");
    return fail(cudaErrorCapturedEvent);
  }
  UNSAFE("cudaEventQuery");
  return cudaSuccess;
}
RUNTIME(cudaEventSynchronize, (cudaEvent_t e), UNSAFE("cudaEventSynchronize"); tick("sync: event"))
RUNTIME(cudaEventElapsedTime, (float* ms, cudaEvent_t, cudaEvent_t), *ms = 1)
RUNTIME(cudaLaunchHostFunc, (cudaStream_t, cudaHostFn_t f, void* u), f(u))
RUNTIME(cudaStreamAddCallback,
        (cudaStream_t s, cudaStreamCallback_t f, void* u, unsigned), f(s, cudaSuccess, u))

// --- graphs
API cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode m) {
  LOCK;
  if (s == nullptr) return fail(cudaErrorStreamCaptureUnsupported);  // the default stream
  if (capturing.count(s)) return fail(cudaErrorIllegalState);
  capturing[s] = new Capture{new Graph, next_id++, m, false, pthread_self()};
  tick("captures");
  return cudaSuccess;
}
API cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t s, cudaGraph_t, const cudaGraphNode_t*,
                                              const cudaGraphEdgeData*, size_t,
                                              cudaStreamCaptureMode m) {
  return cudaStreamBeginCapture(s, m);
}
API cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* g) {
  LOCK;
  auto it = capturing.find(s);
  if (it == capturing.end()) return fail(cudaErrorIllegalState);
  Capture* c = it->second;
  std::vector<cudaStream_t> own;
  for (auto& [st, of] : capturing)
    if (of == c) own.push_back(st);
  for (auto st : own) capturing.erase(st);
  for (auto& [e, of] : captured_events)
    if (of == c) of = nullptr;
  if (c->invalid) {
    *g = nullptr;
    return fail(cudaErrorStreamCaptureInvalidated);
  }
  *g = (cudaGraph_t)c->graph;
  counters["graph kernels"] = c->graph->kernels;
  counters["graph copies"] = c->graph->copies;
  return cudaSuccess;
}
static cudaStreamCaptureStatus status_of(cudaStream_t s) {
  auto it = capturing.find(s);
  if (it == capturing.end()) return cudaStreamCaptureStatusNone;
  return it->second->invalid ? cudaStreamCaptureStatusInvalidated
                             : cudaStreamCaptureStatusActive;
}
RUNTIME(cudaStreamIsCapturing,
        (cudaStream_t s, cudaStreamCaptureStatus* status), *status = status_of(s))
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus* status,
                                         unsigned long long* id, cudaGraph_t* g,
                                         const cudaGraphNode_t** d, const cudaGraphEdgeData** e,
                                         size_t* n) {
  LOCK;
  *status = status_of(s);
  Capture* capture = *status == cudaStreamCaptureStatusNone ? nullptr : capturing[s];
  if (id) *id = capture ? capture->id : 0;
  if (g) *g = capture ? (cudaGraph_t)capture->graph : nullptr;
  if (d) *d = nullptr;
  if (e) *e = nullptr;
  if (n) *n = 0;
  return cudaSuccess;
}
RUNTIME(cudaStreamUpdateCaptureDependencies,
        (cudaStream_t, cudaGraphNode_t*, const cudaGraphEdgeData*, size_t, unsigned))
RUNTIME(cudaGraphInstantiateWithFlags,
        (cudaGraphExec_t* x, cudaGraph_t g, unsigned long long), UNSAFE("cudaGraphInstantiate"); *x
        = (cudaGraphExec_t) new Graph(*(Graph*)g); tick("graphs"))
API cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t) {
  LOCK;
  Graph* g = (Graph*)x;
  tick("graph launches");
  counters["kernels in launched graphs"] += g->kernels;
  for (auto& [n, k] : g->by_name) kernels["[graph] " + n] += k;
  return cudaSuccess;
}
RUNTIME(cudaGraphDestroy, (cudaGraph_t))
RUNTIME(cudaGraphExecDestroy, (cudaGraphExec_t))
API cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t* nodes, size_t* n) {
  Graph* of = (Graph*)g;
  size_t have = of ? of->kernels + of->copies : 0;
  if (nodes)
    for (size_t i = 0; i < std::min(*n, have); i++) nodes[i] = nullptr;
  *n = have;
  return cudaSuccess;
}

// --- kernels
struct Call {
  dim3 g, b;
  size_t shared;
  void* stream;
};
static thread_local std::vector<Call> calls;
API void** __cudaRegisterFatBinary(void*) {
  static void* h[1];
  return h;
}
API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void**) {}
API void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
API void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*,
                                uint3*, dim3*, dim3*, int*) {
  kernel_names[host] = name;
}
API unsigned __cudaPushCallConfiguration(dim3 g, dim3 b, size_t sh, void* s) {
  calls.push_back({g, b, sh, s});
  return 0;
}
API cudaError_t __cudaPopCallConfiguration(dim3* g, dim3* b, size_t* sh, void* s) {
  Call c = calls.back();
  calls.pop_back();
  *g = c.g;
  *b = c.b;
  *sh = c.shared;
  *(void**)s = c.stream;
  return cudaSuccess;
}
RUNTIME(__cudaGetKernel, (cudaKernel_t* k, const void* f), *k = (cudaKernel_t)f)
static cudaError_t launch(const void* f, dim3 g, dim3 b, size_t sh, cudaStream_t s) {
  if (cudaError_t e = check_grid(g, b, sh)) return e;
  LOCK;
  auto it = kernel_names.find(f);
  note_kernel(s, it == kernel_names.end() ? "?" : it->second);
  return cudaSuccess;
}
API cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 g, dim3 b, void**, size_t sh,
                                   cudaStream_t s) {
  return launch((const void*)k, g, b, sh, s);
}
API cudaError_t cudaLaunchKernel(const void* f, dim3 g, dim3 b, void**, size_t sh, cudaStream_t s) {
  return launch(f, g, b, sh, s);
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* f, void**) {
  return launch(f, c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream);
}
RUNTIME(cudaFuncSetAttribute, (const void*, cudaFuncAttribute, int))
RUNTIME(cudaKernelSetAttributeForDevice, (cudaKernel_t, cudaFuncAttribute, int, int))
API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) {
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = 1024;
  a->numRegs = 64;
  a->binaryVersion = a->ptxVersion = card().sm;
  a->maxDynamicSharedSizeBytes = 49152;
  return cudaSuccess;
}
RUNTIME(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int* n, const void*, int, size_t, unsigned), *n = 4)
