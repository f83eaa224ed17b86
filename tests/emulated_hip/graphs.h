// Captures and graphs: lists of work with its order, which a launch enqueues again.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <hip/hip_runtime_api.h>

#include "tests/emulated_hip/engine.h"

namespace emulated_hip {

class Runtime;

struct Node {
  std::function<void()> run;
  std::vector<size_t> after;
  size_t arg_bytes = 0;  // of a kernel
};

struct Capture {
  Stream* origin;
  hipStreamCaptureMode mode;
  std::thread::id thread;
  std::vector<Node> nodes;
  std::map<Stream*, std::vector<size_t>> heads;  // the newest nodes of each stream that takes part
  bool invalidated = false;
  bool stale = false;       // invalidated from the start
  bool overlapped = false;  // another capture was open at the same time
};

// Appends a node to the capture of the stream, if it has one. Throws hipErrorStreamCaptureInvalidated.
bool capture_work(Runtime& runtime, Stream& stream, const std::function<void()>& run, size_t arg_bytes);

// Calls that allocate or wait invalidate the captures of this thread and fail.
void refuse_in_capture(Runtime& runtime);

// After a wait: throws after a fault, also of a write outside an allocation that no guard page has seen.
void end_wait(Runtime& runtime);

// For graph:stale: what the last copy to the device has overwritten.
struct LastCopy {
  void* target = nullptr;
  std::vector<char> before;
};
LastCopy& last_copy(const Stream& stream);

}  // namespace emulated_hip
