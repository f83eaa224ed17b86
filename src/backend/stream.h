// Streams and events of a device (abi::Backend), which end with their owners.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "src/backend/device.h"

namespace gabbro {

class Event;

// Work on it is carried out in order; Event orders the work of several. The functions throw what the backend says.
class Stream {
 public:
  // Another stream of the device, besides Device::State's.
  explicit Stream(std::shared_ptr<Device> device);
  ~Stream();  // waits for its work
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Asynchronous if `host` is memory of Device::allocate_host: it must stay unchanged, or is filled, until
  // synchronize() or an event. Otherwise it has been read, or is filled, on return.
  void copy_to_device(void* target, const void* host, size_t bytes);
  void copy_to_host(void* host, const void* source, size_t bytes);

  // Copies from memory of another device of the same backend, once the stream has waited for the work that writes it.
  // The source must stay unchanged until the stream has come so far.
  void copy_from(Device& other, void* target, const void* source, size_t bytes);

  // Packs rows in the file's layout at `source`, memory of the device, to their part of the packed matrix at `target`.
  void pack(const abi::PackRequest& request, const void* source, void* target);

  // Throws Error kInterrupted when `cancel` became true.
  void execute(std::span<const abi::Launch> launches, const std::atomic<bool>* cancel = nullptr);

  // Memory that is used first, and last, by work on this stream or by work ordered with it. Throws OutOfMemory.
  std::shared_ptr<void> allocate(size_t bytes);

  void record(Event& event);
  void wait(const Event& event);  // what is enqueued from here on
  // Waits on the host. Throws Error kInterrupted within 100 ms of `cancel` becoming true.
  void synchronize(const std::atomic<bool>* cancel = nullptr);

  abi::Stream* handle() const { return core_->handle; }

 private:
  friend struct Device::State;
  // The stream itself, which its memory holds too.
  struct Core {
    Core(std::shared_ptr<Device> o, const abi::Backend* b, abi::Device* d, const abi::DeviceFacts* f, abi::Stream* h)
        : owner(std::move(o)), backend(b), device(d), facts(f), handle(h) {}
    ~Core() {
      if (handle != nullptr) backend->destroy_stream(device, handle);
    }
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;

    std::shared_ptr<Device> owner;  // null: the device's own stream
    const abi::Backend* backend;
    abi::Device* device;
    const abi::DeviceFacts* facts;
    abi::Stream* handle;
  };
  Stream(Device& device, std::shared_ptr<Device> owner);
  explicit Stream(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  std::shared_ptr<Core> core_;
};

// A point in a stream's work.
class Event {
 public:
  explicit Event(std::shared_ptr<Device> device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Waits on the host, as Stream::synchronize; not at all where it was never recorded.
  void synchronize(const std::atomic<bool>* cancel = nullptr);
  abi::Event* handle() const { return handle_; }

 private:
  std::shared_ptr<Device> device_;
  abi::Event* handle_ = nullptr;
};

}  // namespace gabbro
