// Streams and events.
#include <chrono>
#include <memory>

#include "tests/emulated_hip/graphs.h"
#include "tests/emulated_hip/runtime.h"

using emulated_hip::call;
using emulated_hip::Event;
using emulated_hip::Failure;
using emulated_hip::Lock;
using emulated_hip::Runtime;
using emulated_hip::Stream;

namespace {

Event& event_of(hipEvent_t handle) {
  if (handle == nullptr) throw Failure{hipErrorInvalidHandle, "event"};
  return *reinterpret_cast<Event*>(handle);
}

// Waits of the host are not allowed in a capture of the stream.
void refuse_if_capturing(Stream& stream) {
  if (stream.capture == nullptr) return;
  stream.capture->invalidated = true;
  throw Failure{hipErrorStreamCaptureUnsupported, "the stream is capturing"};
}

void wait_for(Runtime& runtime, Lock& lock, const emulated_hip::TaskRef& task) {
  if (runtime.is_failing("hang")) runtime.engine.wait_for_ever(lock);
  if (task != nullptr) runtime.engine.wait(lock, task);
  emulated_hip::end_wait(runtime);
}

}  // namespace

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  return call("hipStreamCreateWithFlags", [&](Runtime& runtime, Lock&) {
    if (stream == nullptr || (flags & ~unsigned{hipStreamNonBlocking}) != 0)
      throw Failure{hipErrorInvalidValue, "stream or flags"};
    *stream = reinterpret_cast<hipStream_t>(runtime.engine.add_stream(runtime.current_device(), flags));
    ++runtime.statistics.streams_made;
    runtime.statistics.most_streams =
        std::max<uint64_t>(runtime.statistics.most_streams, runtime.engine.streams().size());
  });
}

hipError_t hipStreamCreate(hipStream_t* stream) { return hipStreamCreateWithFlags(stream, hipStreamDefault); }
hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int) {
  return hipStreamCreateWithFlags(stream, flags);
}

hipError_t hipStreamDestroy(hipStream_t handle) {
  return call("hipStreamDestroy", [&](Runtime& runtime, Lock& lock) {
    if (handle == nullptr) throw Failure{hipErrorInvalidHandle, "stream"};
    Stream& stream = runtime.stream(handle);
    stream.capture = nullptr;
    runtime.engine.remove_stream(lock, &stream);
    emulated_hip::end_wait(runtime);
  });
}

hipError_t hipStreamSynchronize(hipStream_t handle) {
  return call("hipStreamSynchronize", [&](Runtime& runtime, Lock& lock) {
    Stream& stream = runtime.stream(handle);
    refuse_if_capturing(stream);
    wait_for(runtime, lock, stream.tail);
  });
}

hipError_t hipStreamQuery(hipStream_t handle) {
  return call("hipStreamQuery", [&](Runtime& runtime, Lock& lock) {
    Stream& stream = runtime.stream(handle);
    refuse_if_capturing(stream);
    runtime.engine.advance(lock);
    emulated_hip::require_alive(runtime);
    if (stream.tail != nullptr && !stream.tail->done) throw Failure{hipErrorNotReady, "the stream has work"};
  });
}

hipError_t hipStreamWaitEvent(hipStream_t handle, hipEvent_t event_handle, unsigned flags) {
  return call("hipStreamWaitEvent", [&](Runtime& runtime, Lock& lock) {
    if (flags != 0) throw Failure{hipErrorInvalidValue, "flags"};
    Stream& stream = runtime.stream(handle);
    const Event& event = event_of(event_handle);
    if (event.capture != nullptr) {  // the stream joins the capture
      if (stream.capture != nullptr && stream.capture != event.capture) {
        stream.capture->invalidated = event.capture->invalidated = true;
        throw Failure{hipErrorStreamCaptureMerge, "the event is of another capture"};
      }
      stream.capture = event.capture;
      std::vector<size_t>& heads = event.capture->heads[&stream];
      heads.insert(heads.end(), event.capture_nodes.begin(), event.capture_nodes.end());
      return;
    }
    if (stream.capture != nullptr) {
      stream.capture->invalidated = true;
      throw Failure{hipErrorStreamCaptureIsolation, "the event was recorded outside the capture"};
    }
    if (event.task != nullptr) runtime.engine.enqueue(lock, stream, nullptr, {event.task});
  });
}

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return call("hipEventCreateWithFlags", [&](Runtime& runtime, Lock&) {
    if (event == nullptr) throw Failure{hipErrorInvalidValue, "event"};
    static_cast<void>(runtime.current_device());
    auto made = std::make_unique<Event>();
    made->flags = flags;
    *event = reinterpret_cast<hipEvent_t>(made.release());
  });
}

hipError_t hipEventCreate(hipEvent_t* event) { return hipEventCreateWithFlags(event, hipEventDefault); }

hipError_t hipEventDestroy(hipEvent_t event) {
  return call("hipEventDestroy", [&](Runtime&, Lock&) { delete &event_of(event); });
}

hipError_t hipEventRecord(hipEvent_t handle, hipStream_t stream_handle) {
  return call("hipEventRecord", [&](Runtime& runtime, Lock& lock) {
    Event& event = event_of(handle);
    Stream& stream = runtime.stream(stream_handle);
    event.capture = stream.capture;
    if (stream.capture != nullptr) {
      event.capture_nodes = stream.capture->heads[&stream];
      return;
    }
    event.task = runtime.engine.enqueue(lock, stream, nullptr);
  });
}

hipError_t hipEventSynchronize(hipEvent_t handle) {
  return call("hipEventSynchronize", [&](Runtime& runtime, Lock& lock) {
    const Event& event = event_of(handle);
    if (event.capture != nullptr) throw Failure{hipErrorCapturedEvent, "the event was recorded in a capture"};
    const emulated_hip::TaskRef task = event.task;
    wait_for(runtime, lock, task);
  });
}

hipError_t hipEventQuery(hipEvent_t handle) {
  return call("hipEventQuery", [&](Runtime& runtime, Lock& lock) {
    const Event& event = event_of(handle);
    if (event.capture != nullptr) throw Failure{hipErrorCapturedEvent, "the event was recorded in a capture"};
    const emulated_hip::TaskRef task = event.task;
    runtime.engine.advance(lock);
    emulated_hip::require_alive(runtime);
    if (task != nullptr && !task->done) throw Failure{hipErrorNotReady, "the event is not reached"};
  });
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t from, hipEvent_t to) {
  return call("hipEventElapsedTime", [&](Runtime& runtime, Lock&) {
    const Event &first = event_of(from), &last = event_of(to);
    if (milliseconds == nullptr || ((first.flags | last.flags) & hipEventDisableTiming) != 0 || first.task == nullptr ||
        last.task == nullptr)
      throw Failure{hipErrorInvalidHandle, "events without times"};
    emulated_hip::require_alive(runtime);
    if (!first.task->done || !last.task->done) throw Failure{hipErrorNotReady, "the events are not reached"};
    *milliseconds = std::chrono::duration<float, std::milli>(last.task->finished - first.task->finished).count();
  });
}
