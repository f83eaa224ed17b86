// The GIL and forks of the process. Code that runs without the GIL may hold mutexes, which would stay locked in the
// child: a fork waits for it.
#pragma once

#include <shared_mutex>

#include "python/src/bind.h"

namespace gabbro::python {

// Whether this thread has the GIL, which the stable ABI cannot ask. True in a thread of Python's unless this module has
// released it there, and in any thread that has a WithGil.
bool holds_gil();

// Sets the answer of holds_gil() for as long as it lives.
class GilMark {
 public:
  explicit GilMark(bool held);
  ~GilMark();
  GilMark(const GilMark&) = delete;
  GilMark& operator=(const GilMark&) = delete;

 private:
  int before_;
};

// Takes the GIL for as long as it lives. Used instead of nb::gil_scoped_acquire.
class WithGil {
 private:
  nb::gil_scoped_acquire acquire_;
  GilMark mark_{true};
};

// Releases the GIL for as long as it lives, and delays forks. Used instead of nb::gil_scoped_release. Not to be nested.
class WithoutGil {
 public:
  WithoutGil();

 private:
  nb::gil_scoped_release release_;
  std::shared_lock<std::shared_mutex> lock_;  // released before the GIL is taken again
  GilMark mark_{false};
};

// fork.cc: what os.fork calls, _before_fork and so on (gabbro/__init__.py).
void bind_fork(nb::module_& m);

// device.cc. In the child of a fork: threads and contexts of GPUs do not exist there. CPU devices go on.
void forget_gpus();

}  // namespace gabbro::python
