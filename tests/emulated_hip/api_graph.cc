// Captures and graphs.
#include "tests/emulated_hip/graphs.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "tests/emulated_hip/runtime.h"

namespace emulated_hip {
namespace {

struct Graph {
  std::vector<Node> nodes;
  bool truncated = false;
};

struct GraphExec {
  std::shared_ptr<const Graph> graph;
  int device;
  size_t charged = 0;  // bytes of the device, for the kernels' arguments
  bool lacks_memory = false;
};

constexpr size_t kArgumentGranule = size_t{64} << 10;

std::vector<std::shared_ptr<Capture>>& open_captures() {
  static auto& all = *new std::vector<std::shared_ptr<Capture>>;
  return all;
}

}  // namespace

LastCopy& last_copy(const Stream& stream) {
  static auto& all = *new std::unordered_map<const Stream*, LastCopy>;
  return all[&stream];
}

bool capture_work(Runtime& runtime, Stream& stream, const std::function<void()>& run, size_t arg_bytes) {
  if (stream.capture == nullptr) return false;
  Capture& capture = *stream.capture;
  if (capture.invalidated) throw Failure{hipErrorStreamCaptureInvalidated, "an earlier call has failed"};
  if (runtime.is_failing("capture")) {
    capture.invalidated = true;
    throw Failure{hipErrorStreamCaptureInvalidated, "EMULATED_GPU_FAIL=capture"};
  }
  std::vector<size_t>& heads = capture.heads[&stream];
  capture.nodes.push_back({.run = run, .after = heads, .arg_bytes = arg_bytes});
  heads = {capture.nodes.size() - 1};
  return true;
}

void refuse_in_capture(Runtime&) {
  bool refused = false;
  for (const auto& capture : open_captures()) {
    const bool is_meant =
        capture->mode == hipStreamCaptureModeGlobal ||
        (capture->mode == hipStreamCaptureModeThreadLocal && capture->thread == std::this_thread::get_id());
    if (is_meant) capture->invalidated = refused = true;
  }
  if (refused) throw Failure{hipErrorStreamCaptureUnsupported, "a stream is capturing"};
}

void end_wait(Runtime& runtime) {
  require_alive(runtime);
  const std::string overwritten = runtime.memory.find_overwritten();
  if (!overwritten.empty())
    runtime.fault(hipErrorIllegalAddress, "emulated GPU: found after a wait: " + overwritten, nullptr);
  require_alive(runtime);
}

namespace {

// The nodes in an order that keeps what they wait for: that of the capture.
void launch(Runtime& runtime, Lock& lock, const std::shared_ptr<const Graph>& graph, Stream& stream) {
  const bool is_stale = runtime.settings.has_fault("graph:stale");
  const auto exchange = [&runtime, &stream] {
    const std::lock_guard held(runtime.mutex);
    LastCopy& copy = last_copy(stream);
    if (copy.target == nullptr || runtime.memory.find_around(copy.target, copy.before.size()) == nullptr) return;
    std::swap_ranges(copy.before.begin(), copy.before.end(), static_cast<char*>(copy.target));
  };
  if (is_stale) runtime.engine.enqueue(lock, stream, exchange);
  const size_t count = graph->truncated ? graph->nodes.size() / 2 : graph->nodes.size();
  for (size_t i = 0; i < count; ++i) runtime.engine.enqueue(lock, stream, [graph, i] { graph->nodes[i].run(); });
  if (is_stale) runtime.engine.enqueue(lock, stream, exchange);
}

}  // namespace
}  // namespace emulated_hip

using emulated_hip::call;
using emulated_hip::Capture;
using emulated_hip::Device;
using emulated_hip::Failure;
using emulated_hip::Graph;
using emulated_hip::GraphExec;
using emulated_hip::Lock;
using emulated_hip::Runtime;
using emulated_hip::Stream;

hipError_t hipStreamBeginCapture(hipStream_t handle, hipStreamCaptureMode mode) {
  return call("hipStreamBeginCapture", [&](Runtime& runtime, Lock&) {
    if (handle == nullptr) throw Failure{hipErrorStreamCaptureUnsupported, "the null stream"};
    Stream& stream = runtime.stream(handle);
    if (stream.capture != nullptr) throw Failure{hipErrorIllegalState, "the stream is capturing"};
    auto capture = std::make_shared<Capture>();
    capture->origin = &stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->invalidated = capture->stale = std::exchange(stream.stale_capture, false);
    capture->heads[&stream] = {};
    auto& open = emulated_hip::open_captures();
    for (const auto& other : open) other->overlapped = capture->overlapped = true;
    open.push_back(capture);
    stream.capture = capture;
  });
}

hipError_t hipStreamEndCapture(hipStream_t handle, hipGraph_t* graph) {
  return call("hipStreamEndCapture", [&](Runtime& runtime, Lock&) {
    if (graph == nullptr) throw Failure{hipErrorInvalidValue, "graph"};
    *graph = nullptr;
    Stream& stream = runtime.stream(handle);
    const std::shared_ptr<Capture> capture = stream.capture;
    if (capture == nullptr) throw Failure{hipErrorIllegalState, "the stream is not capturing"};
    if (capture->origin != &stream) throw Failure{hipErrorStreamCaptureUnmatched, "another stream began the capture"};
    if (capture->mode == hipStreamCaptureModeThreadLocal && capture->thread != std::this_thread::get_id())
      throw Failure{hipErrorStreamCaptureWrongThread, "another thread began the capture"};
    std::erase(emulated_hip::open_captures(), capture);
    bool is_joined = true;
    for (const auto& [other, heads] : capture->heads) {
      other->capture = nullptr;
      // Each head of another stream is waited for by a later node, or by the stream that ends the capture.
      is_joined =
          is_joined && std::ranges::all_of(heads, [&, &ends = capture->heads[&stream]](size_t head) {
            return std::ranges::count(ends, head) > 0 || std::ranges::any_of(capture->nodes, [&](const auto& node) {
                     return std::ranges::count(node.after, head) > 0;
                   });
          });
    }
    if (capture->invalidated) {
      stream.stale_capture = runtime.settings.rules.keeps_stale_capture && !capture->stale;
      throw Failure{hipErrorStreamCaptureInvalidated, "an earlier call has failed"};
    }
    if (!is_joined) throw Failure{hipErrorStreamCaptureUnjoined, "a stream has work that nothing waits for"};
    auto made = std::make_unique<Graph>();
    made->nodes = std::move(capture->nodes);
    made->truncated = capture->overlapped && runtime.settings.has_fault("graph:truncate");
    *graph = reinterpret_cast<hipGraph_t>(made.release());
  });
}

hipError_t hipStreamIsCapturing(hipStream_t handle, hipStreamCaptureStatus* status) {
  return call("hipStreamIsCapturing", [&](Runtime& runtime, Lock&) {
    if (status == nullptr) throw Failure{hipErrorInvalidValue, "status"};
    const auto& capture = runtime.stream(handle).capture;
    *status = capture == nullptr     ? hipStreamCaptureStatusNone
              : capture->invalidated ? hipStreamCaptureStatusInvalidated
                                     : hipStreamCaptureStatusActive;
  });
}

hipError_t hipGraphGetNodes(hipGraph_t handle, hipGraphNode_t* nodes, size_t* count) {
  return call("hipGraphGetNodes", [&](Runtime&, Lock&) {
    if (handle == nullptr || count == nullptr || nodes != nullptr)
      throw Failure{hipErrorInvalidValue, "only the number of nodes is known"};
    *count = reinterpret_cast<Graph*>(handle)->nodes.size();
  });
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t handle, unsigned long long flags) {
  return call("hipGraphInstantiateWithFlags", [&](Runtime& runtime, Lock&) {
    if (exec == nullptr || handle == nullptr || flags != 0) throw Failure{hipErrorInvalidValue, "graph or flags"};
    *exec = nullptr;
    auto made = std::make_unique<GraphExec>();
    made->graph = std::make_shared<Graph>(*reinterpret_cast<Graph*>(handle));
    made->device = runtime.current_device();
    size_t bytes = 0;
    for (const auto& node : made->graph->nodes) bytes += (node.arg_bytes + 255) / 256 * 256;
    bytes =
        (bytes + emulated_hip::kArgumentGranule - 1) / emulated_hip::kArgumentGranule * emulated_hip::kArgumentGranule;
    Device& device = runtime.device(made->device);
    // A null result is not checked (rocm-systems#10021): a launch crashes.
    made->lacks_memory = bytes > 0 && !runtime.has_room(device, bytes);
    if (!made->lacks_memory) {
      made->charged = bytes;
      runtime.charge(device, bytes);
    }
    ++runtime.statistics.graphs_made;
    *exec = reinterpret_cast<hipGraphExec_t>(made.release());
  });
}

hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t*, char*, size_t) {
  return hipGraphInstantiateWithFlags(exec, graph, 0);
}

hipError_t hipGraphLaunch(hipGraphExec_t handle, hipStream_t stream_handle) {
  return call("hipGraphLaunch", [&](Runtime& runtime, Lock& lock) {
    if (handle == nullptr) throw Failure{hipErrorInvalidValue, "graph"};
    const GraphExec& exec = *reinterpret_cast<GraphExec*>(handle);
    if (runtime.settings.has_fault("graph:oom")) throw Failure{hipErrorOutOfMemory, "EMULATED_GPU_FAIL=graph:oom"};
    if (exec.lacks_memory) {
      fmt::print(stderr, "emulated HIP: hipGraphLaunch: the runtime crashes, as it had no memory for the arguments\n");
      std::fflush(stderr);
      std::signal(SIGSEGV, SIG_DFL);
      std::raise(SIGSEGV);
    }
    ++runtime.statistics.graph_launches;
    Stream& stream = runtime.stream(stream_handle);
    if (stream.capture != nullptr) {
      for (const auto& node : exec.graph->nodes) emulated_hip::capture_work(runtime, stream, node.run, node.arg_bytes);
      return;
    }
    emulated_hip::launch(runtime, lock, exec.graph, stream);
  });
}

hipError_t hipGraphExecDestroy(hipGraphExec_t handle) {
  return call("hipGraphExecDestroy", [&](Runtime& runtime, Lock&) {
    if (handle == nullptr) throw Failure{hipErrorInvalidValue, "graph"};
    const std::unique_ptr<GraphExec> exec(reinterpret_cast<GraphExec*>(handle));
    runtime.device(exec->device).charged -= exec->charged;
  });
}

hipError_t hipGraphDestroy(hipGraph_t handle) {
  return call("hipGraphDestroy", [&](Runtime&, Lock&) {
    if (handle == nullptr) throw Failure{hipErrorInvalidValue, "graph"};
    delete reinterpret_cast<Graph*>(handle);
  });
}
