// The common part of the plugins' entry points: no exception leaves them, and a Device class D with make_kernel(),
// packed_bytes(), pack() and execute() makes the contract's functions of the same names.
#pragma once

#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "backends/common/status_error.h"
#include "gabbro/backend_abi.h"

namespace gabbro::abi {

inline Status make_status(StatusCode code, const std::string& message) {
  Status result;
  result.code = code;
  std::snprintf(result.message, sizeof(result.message), "%s", message.c_str());
  return result;
}

template <class Body>
Status guarded(Body&& body) {
  try {
    return body();
  } catch (const StatusError& error) {
    return make_status(error.code, error.what());
  } catch (const std::bad_alloc&) {
    return make_status(StatusCode::kOutOfMemory, "out of host memory");
  } catch (const std::exception& error) {
    return make_status(StatusCode::kFailed, error.what());
  } catch (...) {
    return make_status(StatusCode::kFailed, "unknown failure");
  }
}

template <class D>
D& device_cast(Device* device) {
  return *reinterpret_cast<D*>(device);
}

// The streams of a backend that has one queue a device: the default one.
inline Status create_default_stream(Device*, Stream** stream) {
  *stream = nullptr;
  return {};
}
inline void destroy_default_stream(Device*, Stream*) {}

template <class D>
void close_device(Device* device) {
  delete &device_cast<D>(device);
}

template <class D>
size_t packed_bytes_on(Device* device, DType dtype, int64_t rows, int64_t columns) {
  return device_cast<D>(device).packed_bytes(dtype, rows, columns);
}

template <class D>
Status pack_on(Device* device, DType dtype, int64_t rows, int64_t columns, const void* host, void* target) {
  return guarded([&] {
    if (device_cast<D>(device).packed_bytes(dtype, rows, columns) == 0) {
      return make_status(StatusCode::kUnsupported, "no packed form of " + std::string(dtype_name(dtype)));
    }
    device_cast<D>(device).pack(dtype, rows, columns, host, target);
    return Status{};
  });
}

template <class D>
Status find_kernel_on(Device* device, const KernelRequest* request, BoundKernel* bound) {
  return guarded([&] {
    auto kernel = device_cast<D>(device).make_kernel(*request);
    if (kernel == nullptr) {
      return make_status(StatusCode::kUnsupported, "no kernel for this '" + std::string(request->op) + "'");
    }
    *bound = {.handle = kernel.get(),
              .scratch_bytes = kernel->scratch_bytes,
              .implementation = kernel->implementation.c_str(),
              .bytes = kernel->bytes,
              .flops = kernel->flops};
    kernel.release();
    return Status{};
  });
}

template <class D>
Status execute_on(Device* device, Stream*, const Launch* launches, int32_t count, const std::atomic<bool>* cancel) {
  return guarded([&] {
    if (device_cast<D>(device).execute(launches, count, cancel)) return Status{};
    return make_status(StatusCode::kCanceled, "cancelled");
  });
}

}  // namespace gabbro::abi
