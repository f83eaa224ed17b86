// The whole contract between Gabbro and a backend plugin, libgabbro_<name>.so: plain data and function pointers.
// Nothing is thrown across it; every call that can fail returns a Status. docs/recipes/backend.md shows how one is
// written.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "gabbro/dtype.h"

#pragma GCC visibility push(default)
namespace gabbro::abi {

inline constexpr uint32_t kVersion = 14;  // a plugin of another version is refused, with a message
inline constexpr int kMaxRank = 6;
inline constexpr const char* kEntryPoint = "gabbro_backend";  // extern "C" const Backend* gabbro_backend();

// kLost: the device does nothing more for this process, which should end and be started again.
// kBadIndex: a kernel has read an index that is out of range. It has selected nothing, and the device can go on; the
// message is for the user, unchanged. From `execute`, or from the next call that waits for the device (`synchronize`,
// `copy_to_host`), which reports the first such index since the one before.
enum class StatusCode : int32_t { kOk, kFailed, kOutOfMemory, kLost, kCanceled, kUnsupported, kBadIndex };

// `message` is one line without the words "error:"; empty when the code is kOk.
struct Status {
  StatusCode code = StatusCode::kOk;
  char message[252] = {};
};

// Layout of the elements. kPacked: a matrix [N, K] in the backend's private layout, made by `pack`; strides mean
// nothing.
enum class Layout : uint8_t { kStrided, kPacked };

struct TensorView {
  void* data;                 // first element; null in a KernelRequest
  int64_t shape[kMaxRank];    // slowest axis first
  int64_t strides[kMaxRank];  // in elements; 0 along a broadcast axis; rows of a quantized matrix are contiguous
  int32_t rank;
  DType dtype;
  Layout layout;
};

enum class AttributeKind : uint8_t { kInteger, kReal, kText };

struct Attribute {
  const char* name;
  AttributeKind kind;
  int64_t integer;
  double real;
  const char* text;
};

struct KernelRequest {
  const char* op;  // a name of src/ops/op_table.h, or of a fused op (docs/design/fused_ops.md)
  const TensorView* inputs;
  int32_t input_count;
  const TensorView* outputs;  // contiguous, or of an input's layout where `aliases` names that input
  int32_t output_count;
  const Attribute* attributes;
  int32_t attribute_count;
  // For each output the input that it is written into (the op updates a state in place), or -1: each launch gives both
  // the same address. Null: no output aliases an input. A backend that does not write these outputs in place answers
  // kUnsupported, as it does where an op that updates a state has no such input.
  const int32_t* aliases;
};

// Rows [first_row, first_row + row_count) of a row-major matrix [rows, columns] in a file's layout. `first_row` is a
// multiple of kPackRows, and so is `row_count` unless the matrix ends there.
inline constexpr int64_t kPackRows = 64;
struct PackRequest {
  DType dtype;
  int64_t rows;
  int64_t columns;
  int64_t first_row;
  int64_t row_count;
};

// How all_reduce combines the elements of the ranks.
enum class Reduction : int32_t { kSum, kMax };

// A kernel specialized for one request. The backend owns what `handle` points to until `release_kernel`.
struct BoundKernel {
  const void* handle;
  size_t scratch_bytes;        // device memory that each launch needs besides inputs and outputs
  const char* implementation;  // e.g. "linear q4_0 avx512"; for `explain` and profiles
  double bytes;                // memory traffic of one launch, and its floating point operations
  double flops;
};

struct Launch {
  const void* kernel;  // BoundKernel::handle
  TensorView* inputs;
  TensorView* outputs;
  int32_t input_count;
  int32_t output_count;
  void* scratch;  // 64-byte aligned
};

struct DeviceFacts {
  char name[96];          // "AMD EPYC 9654", "Radeon RX 7900 XTX"
  char id[32];            // "cpu", "rocm:0"
  char architecture[32];  // "avx512-vnni", "gfx1100"
  char driver[48];
  char runtime[48];
  char kernels[48];       // which code of its kernels it runs, where there are several: "gfx11-generic kernels"
  char reason[160];       // why it is not usable, else empty
  char pci_address[16];   // "0000:03:00.0"; empty: not a PCI device
  uint64_t memory_total;  // bytes
  uint64_t memory_free;
  int32_t compute_units;  // cores or CUs
  int32_t wave_size;      // lanes; 1 on a CPU
  bool usable;
  bool integrated;
  bool host_accessible;  // the host may dereference the device's pointers
};

// Behavior of a backend with several candidates for a computation (its kernels, a vendor's libraries): use the one that
// was measured to be the fastest before, or measure now.
enum class Tuning : int32_t { kKnown, kMeasureUnknown, kMeasureAll };

struct TuningOptions {
  Tuning mode = Tuning::kKnown;
  // Libraries that can search among their own algorithms do so before they are measured: minutes a shape.
  bool search = false;
  // File of the measurements; null: the backend's default; empty: none.
  const char* file = nullptr;
};

struct DeviceOptions {
  int32_t threads = 0;   // of a CPU device; 0: one per physical core that this process may use
  TuningOptions tuning;  // of backends that measure
};

inline constexpr int kMaxCandidates = 8;

// Known speeds of a device's candidates.
struct TuningFacts {
  char file[1024];    // empty where nothing is kept
  char problem[252];  // one line: why the file is not read, or cannot be written; else empty
  Tuning mode;        // what TuningOptions asked for, or the environment
  bool search;
  int32_t known;     // shapes of this device that were measured, now or before
  int32_t measured;  // of them, those since the device was opened
  uint64_t hits;     // kernels that were made for shapes whose fastest way was known, and for those whose was not
  uint64_t misses;
  double seconds;  // that measuring took since the device was opened
};

struct MeasuredCandidate {
  char name[32];   // "tiled 128", "hipBLASLt"
  double seconds;  // of a launch; 0 where it failed
  bool fit;        // whether it may be chosen: it did not fail, and its result is right
};

struct MeasuredShape {
  char shape[220];  // "linear up to 512 tokens x 4096, q4_k 14336 + 14336, silu_mul"
  MeasuredCandidate candidates[kMaxCandidates];
  int32_t candidate_count;
  int32_t chosen;
};

// Memory that a device keeps once it has it from its runtime, to give it out again: its own, and pinned memory of the
// host.
enum class MemoryKind : int32_t { kDevice, kPinned };

// Use of one kind of memory, in bytes, at this moment; peaks and counts are since the device was opened or since
// reset_memory_facts.
struct PoolFacts {
  uint64_t reserved;  // that the device has: handed out, and kept for later
  uint64_t in_use;    // handed out, sizes rounded up
  uint64_t reserved_peak;
  uint64_t in_use_peak;
  uint64_t allocations;
  uint64_t releases;
  uint64_t hits;      // allocations for which the runtime was not asked
  uint64_t retries;   // that needed a release of cached memory first
  uint64_t failures;  // that found no memory even so
};

// How copies between two devices go.
struct PeerRoute {
  bool direct;       // else through the host's memory
  char reason[252];  // one line: why not directly; empty where they do
};

enum class CheckStatus : int32_t { kOk, kWarning, kError, kSkipped };

// Finding of one check of `gabbro doctor` on a device: one line, and the remedy as one line (may be empty).
struct CheckResult {
  CheckStatus status = CheckStatus::kOk;
  char summary[252] = {};
  char fix[252] = {};
};

struct Device;  // the backend's own
struct Stream;  // a queue of work on a device, carried out in order; null: the device's compute stream
struct Event;   // a point in a stream's work
struct Group;   // devices of one backend that compute together

struct Backend {
  uint32_t abi_version;
  const char* name;  // "cpu"
  int32_t score;     // `--device auto` prefers the highest score that has a usable device; negative: never

  // Devices. `open` may be called several times for one index, with different options; each call opens a new device.
  int32_t (*device_count)();
  Status (*device_facts)(int32_t index, DeviceFacts* facts);
  Status (*open)(int32_t index, const DeviceOptions* options, Device** device);
  void (*close)(Device* device);

  // Streams. Work on one stream is carried out in the order in which it was enqueued; work on different streams in any
  // order, also at the same time, unless events say otherwise. A device has its compute stream, which a null Stream
  // names everywhere below, and any number of others, e.g. one for copies. A device that has done everything when the
  // call returns may return null streams and events. The device outlives its streams and events.
  Status (*create_stream)(Device* device, Stream** stream);
  void (*destroy_stream)(Device* device, Stream* stream);  // waits for its work
  // Waits on the host for all that was enqueued on the stream.
  Status (*synchronize)(Device* device, Stream* stream);
  Status (*create_event)(Device* device, Event** event);
  void (*destroy_event)(Device* device, Event* event);
  // The event is what was enqueued on the stream so far; a later `record` replaces that for later waits.
  Status (*record)(Device* device, Stream* stream, Event* event);
  // Later work on the stream begins after the event, which may be another device's of this backend. Does nothing where
  // the event was never recorded.
  Status (*wait)(Device* device, Stream* stream, Event* event);
  // Waits on the host.
  Status (*synchronize_event)(Device* device, Event* event);

  // Memory. `allocate` gives memory to be used first by work on `stream`, or by work ordered after it. Alignment is at
  // least 64 bytes. `free` may be called while work that uses the memory is under way, if that is on `stream`, or
  // ordered before what is enqueued there next. No other memory call need be ordered.
  Status (*allocate)(Device* device, Stream* stream, size_t bytes, void** pointer);
  void (*free)(Device* device, Stream* stream, void* pointer);
  // Keeps nothing for later; optional (null: `free` does so).
  void (*free_unpooled)(Device* device, Stream* stream, void* pointer);
  // Copies on the stream. If the host's memory is pinned, the call does not wait, and the memory must stay unchanged
  // (copy_to_device), or is filled (copy_to_host), until the stream has come so far. Other memory may be written
  // again (copy_to_device), or is filled (copy_to_host), on return.
  Status (*copy_to_device)(Device* device, Stream* stream, void* target, const void* host, size_t bytes);
  Status (*copy_to_host)(Device* device, Stream* stream, void* host, const void* source, size_t bytes);
  // Optional (all null: no memory is pinned). Pinned memory of the host, which copies of all devices of a backend
  // read and write directly; `free_host` only once no copy uses it.
  Status (*allocate_host)(Device* device, size_t bytes, void** pointer);
  void (*free_host)(Device* device, void* pointer);
  bool (*is_pinned)(Device* device, const void* host);

  // Optional (null: nothing is counted).
  Status (*memory_facts)(Device* device, MemoryKind kind, PoolFacts* facts);
  Status (*reset_memory_facts)(Device* device, MemoryKind kind);
  // Optional (null: nothing is cached). `reserve` takes `bytes` more from the runtime, to be handed out later in pieces
  // of any size (a backend may exclude small ones); `trim` releases what is not in use, and returns how much that was.
  Status (*reserve)(Device* device, MemoryKind kind, size_t bytes);
  Status (*trim)(Device* device, MemoryKind kind, size_t* bytes);

  // Optional (all null, or kUnsupported from reserve_range: such memory is allocated whole). reserve_range
  // reserves addresses only; extend_range backs the first `bytes` with memory, where earlier contents
  // stay. kOutOfMemory: the range is as it was. release_range waits for the compute stream; no
  // other work that uses the range is under way.
  Status (*reserve_range)(Device* device, size_t bytes, void** range);
  Status (*extend_range)(Device* device, void* range, size_t bytes);
  void (*release_range)(Device* device, void* range);

  // Weights. The size of the packed form of a row-major matrix [rows, columns], or 0 if this backend reads the file's
  // layout. `pack` is work on the stream: it reads row_count rows in the file's layout from `source`, memory of the
  // device, and writes their part of the packed matrix that begins at `target`.
  size_t (*packed_bytes)(Device* device, DType dtype, int64_t rows, int64_t columns);
  Status (*pack)(Device* device, Stream* stream, const PackRequest* request, const void* source, void* target);

  // Kernels. kUnsupported means "use the composition".
  Status (*find_kernel)(Device* device, const KernelRequest* request, BoundKernel* kernel);
  void (*release_kernel)(Device* device, const void* handle);

  // Enqueues the launches on the stream, in order. Stops early with kCanceled when `cancel` (may be null) becomes true.
  Status (*execute)(Device* device, Stream* stream, const Launch* launches, int32_t count,
                    const std::atomic<bool>* cancel);

  // Optional (null: none). Runs a check of `gabbro doctor` that needs the hardware, by its id in
  // src/backend/doctor/device_checks.cc; kUnsupported where this backend does not have it.
  Status (*run_check)(int32_t index, const char* id, CheckResult* result);

  // Optional (all null: there is one way for each shape). The results of Tuning; `number` counts shapes measured
  // since the device was opened.
  Status (*tuning_facts)(Device* device, TuningFacts* facts);
  Status (*measured_shape)(Device* device, int32_t number, MeasuredShape* shape);
  // Replaces the options that the device was opened with, for kernels that are found from now on; what another file
  // holds is known then, besides what was measured since the device was opened, which is put into that file.
  Status (*set_tuning)(Device* device, const TuningOptions* options);
  // Forgets what is known, and the counts; the file stays unchanged.
  Status (*forget_tuning)(Device* device);

  // Optional (both null: the caller stages copies). Copies from memory of another device of this backend, as work on a
  // stream of `to`. The caller orders it after the work of `from` that writes the source, and work of `from` that
  // writes it again after the copy (`record`, `wait`). The first use of a pair tests it, which takes both compute
  // streams.
  Status (*copy_between)(Device* to, Stream* stream, void* target, Device* from, const void* source, size_t bytes);
  Status (*peer_route)(Device* to, Device* from, PeerRoute* route);

  // Optional (all null: no groups; all_gather may be null alone). Devices of this backend that compute one thing
  // together; rank i is devices[i], and no device is there twice. A collective is enqueued for all ranks at once, rank
  // i's share on streams[i]: it begins there after what was enqueued before, and what is enqueued later sees its
  // result. kUnsupported: not for these devices, or not for this dtype.
  Status (*create_group)(Device* const* devices, int32_t count, Group** group);
  void (*destroy_group)(Group* group);  // after its collectives are over
  // targets[i] [elements] = the reduction of all sources [elements], f32, f16 or bf16, added up in f32 in the order of
  // the ranks, so that all ranks get the same bits. targets[i] may be sources[i].
  Status (*all_reduce)(Group* group, Stream* const* streams, const void* const* sources, void* const* targets,
                       DType dtype, int64_t elements, Reduction reduction);
  // targets[i] [ranks][bytes] = all sources [bytes], in the order of the ranks. sources[i] may be targets[i] + i·bytes.
  Status (*all_gather)(Group* group, Stream* const* streams, const void* const* sources, void* const* targets,
                       size_t bytes);

  // Optional (all null: none). Sums over a group inside of plans: the op `rank_sum` with `id` as its attribute `sums`
  // and the number of the rank as `rank`. Each rank's compute stream gets its launches by itself; they wait for the
  // launches of the others, which have to be given the same sums in the same order. kUnsupported: these devices have
  // none, and why.
  Status (*rank_sums)(Group* group, int64_t* id);
  // From any thread: the launches wait no longer, and their results are undefined, until begin_rank_sums, which waits
  // for the devices. It does nothing where no launch has waited in vain or was stopped.
  void (*stop_rank_sums)(Group* group);
  Status (*begin_rank_sums)(Group* group);
  int32_t (*late_rank)(Group* group);  // that a launch has waited for in vain; -1: none

  // Optional (null: `synchronize` and `synchronize_event` have to do). Waits like these that end with kCanceled within
  // 100 ms of `cancel` (may be null) becoming true; the device goes on with its work.
  Status (*await_stream)(Device* device, Stream* stream, const std::atomic<bool>* cancel);
  Status (*await_event)(Device* device, Event* event, const std::atomic<bool>* cancel);

  // Optional, both. The names of the last launches of this process, the newest first, each once; returns their number,
  // at most `most`. The texts live as long as the plugin, and a signal handler may ask.
  int32_t (*last_launches)(const char** names, int32_t most);
  // Lines for the user, such as a wait without progress, go to `report`, from any thread; null: nowhere.
  void (*set_reporter)(void (*report)(const char* line));
};

}  // namespace gabbro::abi
#pragma GCC visibility pop
