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

// The streams and events of a backend whose calls return when their work is done.
inline Status create_null_stream(Device*, Stream** stream) {
  *stream = nullptr;
  return {};
}
inline void destroy_null_stream(Device*, Stream*) {}
inline Status create_null_event(Device*, Event** event) {
  *event = nullptr;
  return {};
}
inline void destroy_null_event(Device*, Event*) {}
inline Status order_null_event(Device*, Stream*, Event*) { return {}; }  // `record` and `wait`
inline Status synchronize_null_event(Device*, Event*) { return {}; }

template <class D>
void close_device(Device* device) {
  delete &device_cast<D>(device);
}

template <class D>
size_t packed_bytes_on(Device* device, DType dtype, int64_t rows, int64_t columns) {
  return device_cast<D>(device).packed_bytes(dtype, rows, columns);
}

// Whether the request's rows are rows of its matrix, and begin and end where `pack` may be asked to.
inline bool is_sound(const PackRequest& r) {
  return r.rows > 0 && r.columns > 0 && r.first_row >= 0 && r.row_count > 0 && r.first_row < r.rows &&
         r.row_count <= r.rows - r.first_row && r.first_row % kPackRows == 0 &&
         (r.row_count % kPackRows == 0 || r.first_row + r.row_count == r.rows);
}

template <class D>
Status pack_on(Device* device, Stream* stream, const PackRequest* request, const void* source, void* target) {
  return guarded([&] {
    if (!is_sound(*request)) return make_status(StatusCode::kFailed, "a part of a matrix that cannot be packed");
    if (device_cast<D>(device).packed_bytes(request->dtype, request->rows, request->columns) == 0) {
      return make_status(StatusCode::kUnsupported, "no packed form of " + std::string(dtype_name(request->dtype)));
    }
    device_cast<D>(device).pack(stream, *request, source, target);
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
Status execute_on(Device* device, Stream* stream, const Launch* launches, int32_t count,
                  const std::atomic<bool>* cancel) {
  return guarded([&] {
    if (device_cast<D>(device).execute(stream, launches, count, cancel)) return Status{};
    return make_status(StatusCode::kCanceled, "cancelled");
  });
}

}  // namespace gabbro::abi
