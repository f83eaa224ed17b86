// Forks of the process: see fork.h.
#include "python/src/fork.h"

#include <utility>

namespace gabbro::python {
namespace {

// Replaced in the child, where it counts threads that do not exist.
std::shared_mutex*& running_mutex() {
  static std::shared_mutex* mutex = new std::shared_mutex;
  return mutex;
}

// The newest GilMark of this thread: whether it has the GIL, or kNoMark.
constexpr int kNoMark = -1;
thread_local int mark_of_thread = kNoMark;

}  // namespace

bool holds_gil() {
  return mark_of_thread == kNoMark ? PyGILState_GetThisThreadState() != nullptr : mark_of_thread != 0;
}

GilMark::GilMark(bool held) : before_(std::exchange(mark_of_thread, held ? 1 : 0)) {}
GilMark::~GilMark() { mark_of_thread = before_; }

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
