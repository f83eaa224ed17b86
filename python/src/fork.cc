// Forks of the process: see fork.h.
#include "python/src/fork.h"

namespace gabbro::python {
namespace {

// Replaced in the child, where it counts threads that do not exist.
std::shared_mutex*& running_mutex() {
  static std::shared_mutex* mutex = new std::shared_mutex;
  return mutex;
}

}  // namespace

WithoutGil::WithoutGil() : lock_(*running_mutex()) {}

void bind_fork(nb::module_& m) {
  m.def("_before_fork", [] {
    const nb::gil_scoped_release release;  // what runs may need it to end
    running_mutex()->lock();
  });
  m.def("_after_fork_in_parent", [] { running_mutex()->unlock(); });
  m.def("_after_fork_in_child", [] {
    running_mutex() = new std::shared_mutex;
    forget_gpus();
  });
}

}  // namespace gabbro::python
