// A GPU that is not there: CUDA's runtime, driver and libraries as torch and Triton call them, in
// front of the real ones (LD_PRELOAD).
//
// Memory is host memory and copies are done. Kernels are not done; they are counted by name. A call
// that CUDA forbids during the capture of a graph fails here, too.
//
// NULLGPU="name;capability;multiprocessors;GB" describes the card. This file holds the state.
#pragma once
#include <cuda_runtime_api.h>
#include <cuda.h>
#include <sys/mman.h>
#include <dlfcn.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))
// A function of the runtime, or of the driver, that does this and succeeds
#define RUNTIME(name, arguments, ...) \
  API cudaError_t name arguments {    \
    LOCK;                             \
    __VA_ARGS__;                      \
    return cudaSuccess;               \
  }
#define DRIVER(name, arguments, ...) \
  API CUresult name arguments {      \
    LOCK;                            \
    __VA_ARGS__;                     \
    return CUDA_SUCCESS;             \
  }

struct Card {
  std::string name = "NVIDIA H100 80GB HBM3";
  int sm = 90, sms = 132;
  double gb = 80;
};
inline Card card() {
  static Card made = [] {
    Card of;
    char name[100] = "";
    if (const char* text = getenv("NULLGPU"))
      if (sscanf(text, "%99[^;];%d;%d;%lf", name, &of.sm, &of.sms, &of.gb) > 0) of.name = name;
    return of;
  }();
  return made;
}

inline std::recursive_mutex lock_;
#define LOCK std::lock_guard<std::recursive_mutex> guard(lock_)
inline thread_local cudaError_t last_error = cudaSuccess;
inline thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
inline std::map<std::string, long> counters;
inline std::map<std::string, long> kernels;
inline std::unordered_map<const void*, std::string> kernel_names;
inline std::map<char*, size_t> device_blocks, host_blocks;
inline size_t used = 0;  // bytes

// What was captured
struct Graph {
  long kernels = 0, copies = 0;
  std::map<std::string, long> by_name;
};
struct Capture {
  Graph* graph;
  unsigned long long id;
  cudaStreamCaptureMode mode;
  bool invalid = false;
  pthread_t thread;
};
inline std::map<cudaStream_t, Capture*> capturing;  // all streams in a capture
inline std::map<cudaEvent_t, Capture*> captured_events;
inline unsigned long long next_id = 1;
inline long next_handle = 0x1000;

inline cudaError_t fail(cudaError_t e) {
  last_error = e;
  return e;
}
inline void tick(const char* what) { counters[what]++; }

// The result of an unsafe call while a stream is captured, by the modes of capture and thread
inline cudaError_t unsafe(const char* what) {
  for (auto& [stream, capture] : capturing) {
    bool own = pthread_equal(capture->thread, pthread_self());
    bool forbidden = false;
    if (capture->mode == cudaStreamCaptureModeGlobal)
      forbidden = thread_mode != cudaStreamCaptureModeRelaxed &&
                  (thread_mode == cudaStreamCaptureModeGlobal || own);
    if (capture->mode == cudaStreamCaptureModeThreadLocal)
      forbidden = own && thread_mode != cudaStreamCaptureModeRelaxed;
    if (forbidden) {
      capture->invalid = true;
      tick((std::string("forbidden in capture: ") + what).c_str());
      return fail(cudaErrorStreamCaptureUnsupported);
    }
  }
  return cudaSuccess;
}
#define UNSAFE(what) \
  if (cudaError_t e = unsafe(what)) return e
inline cudaError_t sync_stream(cudaStream_t s, const char* what) {
  auto it = capturing.find(s);
  if (it != capturing.end()) {
    it->second->invalid = true;
    tick((std::string("forbidden in capture: ") + what).c_str());
    return fail(cudaErrorStreamCaptureUnsupported);
  }
  UNSAFE(what);
  tick(what);
  return cudaSuccess;
}
#define WAIT(stream, what) \
  if (cudaError_t e = sync_stream(stream, what)) return e
// Count a kernel, or note it in the graph that its stream records
inline void note_kernel(cudaStream_t s, const std::string& name) {
  auto it = capturing.find(s);
  if (it != capturing.end()) {
    it->second->graph->kernels++;
    it->second->graph->by_name[name]++;
    return;
  }
  counters["kernels"]++;
  kernels[name]++;
}
inline cudaError_t check_grid(dim3 g, dim3 b, size_t shared) {
  if (g.x == 0 || g.y == 0 || g.z == 0 || g.y > 65535 || g.z > 65535 || b.x * b.y * b.z > 1024 ||
      b.x * b.y * b.z == 0) {
    tick("invalid configuration");
    return fail(cudaErrorInvalidConfiguration);
  }
  return cudaSuccess;
}
inline bool in_blocks(const std::map<char*, size_t>& m, const void* p) {
  auto it = m.upper_bound((char*)p);
  if (it == m.begin()) return false;
  --it;
  return (char*)p < it->first + it->second;
}
// Bytes of shared memory that a block may ask for
inline size_t shared_optin() { return card().sm > 75 ? 232448 : 65536; }
inline size_t shared_sm() { return shared_optin() + (card().sm > 75 ? 1024 : 0); }
int attribute(int a);  // of every card, by its number in CUDA's enumeration
