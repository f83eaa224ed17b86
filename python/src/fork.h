// Forks of the process. Code that runs without the GIL may hold mutexes, which would stay locked in the child: a fork
// waits for it.
#pragma once

#include <shared_mutex>

#include "python/src/bind.h"

namespace gabbro::python {

// Releases the GIL for as long as it lives, and delays forks. Not to be nested.
class WithoutGil {
 public:
  WithoutGil();

 private:
  nb::gil_scoped_release release_;
  std::shared_lock<std::shared_mutex> lock_;  // released before the GIL is taken again
};

// fork.cc: what os.fork calls, _before_fork and so on (gabbro/__init__.py).
void bind_fork(nb::module_& m);

// device.cc. In the child of a fork: threads and contexts of GPUs do not exist there. CPU devices go on.
void forget_gpus();

}  // namespace gabbro::python
