// Functions of Python that long work calls, and how other threads stop it.
#pragma once

#include <atomic>
#include <exception>
#include <string_view>
#include <utility>

#include "python/src/fork.h"

namespace gabbro::python {

// Stops a generation from another thread.
struct CancelFlag {
  std::atomic<bool> set{false};
};

// Functions of Python that are called while the GIL is released. The first error ends the work, and is raised after it.
class Callback {
 public:
  explicit Callback(nb::object function) : function_(std::move(function)) {}

  template <class... Arguments>
  void operator()(const Arguments&... arguments) {
    if (function_.is_none()) return;
    const WithGil gil;
    if (error_ != nullptr) return;
    try {
      function_(argument_of(arguments)...);
    } catch (nb::python_error&) {
      error_ = std::current_exception();
    }
  }
  bool failed() const { return error_ != nullptr; }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  // Python's objects are made with the GIL alone.
  static nb::str argument_of(std::string_view text) { return nb::str(text.data(), text.size()); }
  template <class T>
  static const T& argument_of(const T& value) {
    return value;
  }

  nb::object function_;
  std::exception_ptr error_;
};

}  // namespace gabbro::python
