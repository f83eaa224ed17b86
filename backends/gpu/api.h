// The host side's view of a GPU runtime, implemented by api_sim.cc, api_cuda.cc and api_hip.cc; each plugin has
// one. All functions throw ApiError, except those that release something (close, release, destroy, unload): they work
// on a failed device too. A function that takes a device makes it current; the others work on the objects they are
// given.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/common/status_error.h"
#include "gabbro/backend_abi.h"
#include "kernels/gpu/types.h"

namespace gabbro::gpu {

using ApiError = abi::StatusError;

namespace api {

// The objects of the runtime, each behind its own type.
struct Context;   // an opened device
struct Queue;     // a stream of work on it
struct Event;     // a point in a queue's work
struct Module;    // a loaded code object
struct Function;  // a kernel in one
struct Graph;     // captured work, ready to be replayed
struct Gemm;      // of a vendor's library, for one shape
struct Convolution;

const char* backend_name();  // "sim", "cuda", "rocm"
int32_t score();             // for `--device auto`

int32_t device_count();  // 0 where the runtime is missing
void device_facts(int32_t index, abi::DeviceFacts& facts);

Context* open(int32_t index);
void close(Context* context);

size_t free_memory(Context* context);             // bytes
double memory_bandwidth(const Context* context);  // bytes/s that the memory can move; 0 where it is not known

// Null where there is not enough memory. At least 256-byte aligned on a real device, 64 on the simulator.
void* allocate(Context* context, size_t bytes);
void release(Context* context, void* pointer);
// Allocation sizes are multiples of this, so that freed memory fits other requests; 1 on the simulator, which detects
// accesses past the end.
size_t allocation_step();
void* allocate_pinned(Context* context, size_t bytes);
void release_pinned(Context* context, void* pointer);

// Addresses without memory, and memory for a part of them, all in multiples of range_step: 0 where the device, its
// driver or the system has no such thing.
size_t range_step(Context* context);
void* reserve_addresses(Context* context, size_t bytes);
// A new piece of memory, after the first `mapped` bytes of a range that have some. False: there is not enough.
bool map_memory(Context* context, void* range, size_t mapped, size_t bytes);
// These return why it failed, in one line, or nothing. A piece is what one call of map_memory mapped; addresses are
// released once all pieces are unmapped.
std::string unmap_memory(Context* context, void* piece, size_t bytes);
std::string release_addresses(Context* context, void* range, size_t bytes);

Queue* create_queue(Context* context);
void destroy_queue(Queue* queue);  // which is synchronized, or its device failed
// Host memory must stay unchanged until the queue is synchronized, unless it is not pinned: then it is copied at once,
// and is at most kPageableBytes, the largest copy that HIP stages; of larger ones it pins the pages (memory/staging.h).
inline constexpr size_t kPageableBytes = size_t{1} << 20;
void copy_to_device(Queue* queue, void* target, const void* host, size_t bytes);
void copy_to_host(Queue* queue, void* host, const void* source, size_t bytes);  // there once it is synchronized
bool is_done(Queue* queue);                                                     // all that was enqueued
void synchronize(Queue* queue);                                                 // wait.cc

Event* create_event(Context* context);
void destroy_event(Event* event);
void record(Queue* queue, Event* event);
void wait(Queue* queue, Event* event);  // what is enqueued from here on; nothing where it was never recorded
bool is_done(Event* event);             // also where it was never recorded
void synchronize(Event* event);         // wait.cc

// A wait is reported when it has lasted this long, and each time that it has lasted as long again, with advice for this
// runtime, if there is any.
std::chrono::milliseconds report_after();
std::string wait_advice();

// Checks that accesses to memory are ordered by queues and events.
struct Access {
  const void* memory;
  size_t bytes;
  bool writes;
};
class AccessCheck {
 public:
  virtual ~AccessCheck() = default;
  // The accesses of what is enqueued next under this name. Throws where one is not ordered after an earlier one that it
  // conflicts with. Copies declare themselves.
  virtual void enqueued(Queue* queue, const std::string& name, std::vector<Access> accesses) = 0;
  // Memory of a pool is handed out, and is freed by work on the queue (null: by the host). The next wait reports an
  // error of the latter.
  virtual void allocated(const void* memory, size_t bytes) = 0;
  virtual void freed(Context* context, Queue* queue, const void* memory, size_t bytes) = 0;
};
AccessCheck* access_check();  // null but on the simulator

// Launches from here on may be skipped once `cancel` (null: none) is true. Only the simulator, whose launches are
// synchronous, checks it; work that a device has been given cannot be canceled.
void set_cancel_flag(Queue* queue, const std::atomic<bool>* cancel);

// Lets `to` read the memory of `from`, another device or the same. Why that cannot be, in one line, or nothing.
std::string connect(Context* to, Context* from);
// Between devices that are connected, on the queue of the one that receives.
void copy_peer(Queue* to, void* target, Context* from, const void* source, size_t bytes);

// `wave` is the wave size that the kernels are made for.
Module* load_module(Context* context);
void unload_module(Module* module);
std::string module_description(const Module* module);  // which code object is in use
uint32_t wave_size(const Context* context);
Function* find_function(Module* module, const char* name);  // null: no such kernel; belongs to the module
// Kernels that are made at run time: a source that includes the files of kernels/, compiled on this machine, and kept
// for the next time under `name`, which no other source may have. Null where it has no such kernel. Throws where the
// compiler refuses it.
bool can_compile(Context* context);  // whether there is a compiler
Function* compile_function(Module* module, const std::string& name, const std::string& source);
uint32_t compute_units(const Context* context);  // multiprocessors
uint32_t block_threads(const Function* function);
uint32_t resident_blocks(const Function* function);  // that the whole device runs at a time

// How many clusters of that many blocks along z run at a time: groups of blocks that read each other's memory. 0: the
// device has no such thing, or they do not fit.
uint32_t resident_clusters(const Function* function, uint32_t blocks);

// The threads that a grid may have along x; along y and z it may have 65535 blocks.
uint64_t most_threads_along_x();
// `cluster`: blocks along z that are a cluster; 1: there are none.
void launch(Queue* queue, const Function* function, Dim grid, const void* args, size_t arg_bytes, uint32_t cluster);

// A factor of a product: for each batch a matrix [lines][depth]. Steps are in elements.
struct Factor {
  int64_t step;             // from line to line
  int64_t batch_step = 0;   // 0: all batches share the matrix
  bool transposed = false;  // stored [depth][lines]; `step` is from one index of the depth to the next
};

enum class Activation { kNone, kRelu, kGeluTanh, kSilu };

// y [batches][tokens][rows] = activation(alpha · x [tokens][depth] · w [rows][depth]ᵀ + addend + bias), summed in f32.
// The addend, which may be null, has y's layout.
struct GemmShape {
  DType dtype = DType::f16;   // of x and w: f32, f16 or bf16
  DType result = DType::f32;  // of y, the addend and the bias: f32, or dtype
  int64_t rows, tokens, depth;
  int64_t batches = 1;
  Factor w, x;
  int64_t y_step;  // from token to token; from batch to batch `tokens` times as much
  float alpha = 1;
  bool bias = false;  // [rows]
  Activation activation = Activation::kNone;
};
struct GemmOperands {
  const void* w;
  const void* x;
  const void* addend;
  const void* bias;
  void* y;
};

// Names of the vendor's BLAS libraries, in the order in which they are asked for a shape without a measurement. Each
// may be missing.
std::vector<std::string> product_libraries(Context* context);  // "hipBLASLt"
// Whether they are used for shapes without a measurement.
bool trusts_product_libraries(Context* context);
// Why a BLAS library is not used on this device, in one line; empty if it is. Opens it.
std::string library_problem(Context* context, const std::string& library);
// Opens it, one of convolutions as well. Empty where it is missing, or does not work on this device.
std::string library_version(Context* context, const std::string& library);

// Null where there is no such library, or it does not take this shape.
Gemm* make_gemm(Context* context, const std::string& library, const GemmShape& shape);
void destroy_gemm(Gemm* product);
void multiply(Queue* queue, const Gemm* product, const GemmOperands& operands);

// y [N, groups · out_channels, out...] = the cross-correlation of x [N, groups · in_channels, in...] with w [groups ·
// out_channels, in_channels, kernel...], all contiguous and of one type: f32, f16 or bf16, summed in f32. Three axes.
struct ConvShape {
  DType dtype;
  int64_t images, groups;
  int64_t in_channels, out_channels;  // of a group
  int64_t in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
  // The other way round, as the gradient of that convolution goes: x is what would be y [N, groups · out_channels,
  // out...], and y what would be x.
  bool transposed = false;
};

// The vendor's libraries of convolutions that may be asked.
std::vector<std::string> convolution_libraries(Context* context);  // "MIOpen"
// Whether they are used for shapes without a measurement: by their own ranking, which computes nothing.
bool trusts_convolution_libraries(Context* context);
// Null where there is no such library, or it does not take this shape. `search`: as in conv_library.h.
Convolution* make_convolution(Context* context, const std::string& library, const ConvShape& shape, bool search);
void destroy_convolution(Convolution* convolution);
size_t convolution_scratch(const Convolution* convolution);  // bytes of device memory
void convolve(Queue* queue, const Convolution* convolution, const void* x, const void* w, void* y, void* scratch);

// Devices that compute one thing together; see abi::Backend.
struct Group;
// Device memory of each rank, in the order of the group's devices.
struct Buffers {
  const void* const* sources;
  void* const* targets;
};
struct Reduce {
  DType dtype;  // f32, f16 or bf16
  int64_t elements;
  abi::Reduction reduction;
};
struct Collectives {
  Group* (*make_group)(const std::vector<Context*>& contexts);  // null where these devices have none
  void (*destroy_group)(Group* group);
  void (*all_reduce)(Group* group, const std::vector<Queue*>& queues, const Buffers& buffers, const Reduce& reduce);
  void (*all_gather)(Group* group, const std::vector<Queue*>& queues, const Buffers& buffers, size_t bytes);
};
const Collectives* collectives();  // null: none
// Why kernels of several devices cannot wait for each other, in one line, or nothing.
std::string rank_sum_problem();
// Memory that kernels of other devices write while kernels of this one read it. Null where there is not enough.
void* allocate_shared(Context* context, size_t bytes);
uint64_t ticks_per_second();  // of ticks() in kernels/collective/peer_memory.h

struct GraphRules {
  size_t most;      // graphs that a stream keeps
  size_t spare;     // bytes that must be free on the device before one is made
  bool tested;      // replays are compared with single launches before the first graph is used
  std::string off;  // why there are none on this device; empty: there are
};
GraphRules graph_rules(const Context* context);
// Work enqueued between the two becomes a graph instead of being done. If end_capture throws, the capture has ended.
void begin_capture(Queue* queue);
Graph* end_capture(Queue* queue);
void abandon_capture(Queue* queue);  // ends a capture, also a failed one, and drops what was captured
void replay(Queue* queue, Graph* graph);
void destroy_graph(Graph* graph);

}  // namespace api
}  // namespace gabbro::gpu
