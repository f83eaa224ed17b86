// The objects of HIP behind backends/gpu/api.h.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "backends/gpu/api.h"
#include "backends/gpu/conv_library.h"
#include "backends/gpu/hip/code_objects.h"
#include "backends/gpu/hip/gemm_libraries.h"
#include "backends/gpu/hip/runtime.h"

namespace gabbro::gpu::api {

using hip::Runtime;
using hip::runtime;

struct Context {
  int device = 0;
  std::string architecture;  // "gfx90a:sramecc+:xnack-"
  double bandwidth = 0;
  uint32_t wave = 32;
  uint32_t units = 0;                                // multiprocessors
  std::mutex products_mutex;                         // of the pointer
  std::unique_ptr<hip::ProductLibraries> products;   // from the first product on
  std::unique_ptr<ConvolutionLibrary> convolutions;  // from the first convolution on; null: none
  bool convolutions_opened = false;

  void use() const { runtime().check(runtime().hipSetDevice_(device), "selecting the device"); }
  // For functions that release something: a lost device has nothing to release.
  bool try_use() const { return runtime().hipSetDevice_(device) == hipSuccess; }
};
struct Queue {
  Context* context;
  hipStream_t stream = nullptr;
};
struct Event {
  Context* context;
  hipEvent_t event = nullptr;
};
struct Function {
  hipFunction_t function = nullptr;
  uint32_t threads = 0;
  uint32_t resident_blocks = 0;
};
struct Module {
  explicit Module(Context* own) : context(own), code(own->architecture) {}
  Context* context;
  hip::CodeObjects code;
  std::unordered_map<std::string, std::unique_ptr<Function>> functions;
};
struct Graph {
  hipGraphExec_t exec = nullptr;
  hipStream_t replayed = nullptr;  // the stream of the last replay
};
struct Gemm {
  std::unique_ptr<hip::LibraryProduct> product;
};
struct Convolution {
  std::unique_ptr<LibraryConvolution> convolution;
};

}  // namespace gabbro::gpu::api
