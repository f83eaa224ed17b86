// The number of threads on the CPU: set_num_threads, or OMP_NUM_THREADS.
#include <cstdlib>

#include "python/src/device.h"
#include "src/base/error.h"

namespace gabbro::python {
namespace {

constexpr int kMostThreads = 1024;

int wanted = 0;  // of set_num_threads; 0: not called
int in_use = 0;  // 0: the CPU is not open

// The first number of OMP_NUM_THREADS, which may be a list ("4,2"); 0 without one.
int environment_threads() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  const long count = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return count < 1 || count > kMostThreads ? 0 : static_cast<int>(count);
}

void set_num_threads(int count) {
  if (count < 1 || count > kMostThreads) throw bad_input("[set_num_threads] {} is not in 1..{}", count, kMostThreads);
  if (in_use != 0 && in_use != count) {
    throw bad_input(
        "[set_num_threads] the CPU already computes with {} threads: call it before the first tensor, or set "
        "OMP_NUM_THREADS",
        in_use);
  }
  wanted = count;
}

int get_num_threads() {
  device_argument(nb::str("cpu"));  // opens it
  return in_use;
}

}  // namespace

int standard_cpu_threads() { return wanted != 0 ? wanted : environment_threads(); }
void cpu_computes_with(int count) { in_use = count; }

void bind_device_threads(nb::module_& m) {
  m.def("set_num_threads", set_num_threads, nb::arg("num"), R"(Sets how many threads compute on the CPU.

Parameters
----------
num : int
    From 1 to 1024. Without a call it is OMP_NUM_THREADS, or one per physical core that the process may use.

Raises
------
ValueError
    For other numbers, and if the CPU already computes with another number of threads: the call has to come before the
    first tensor.

>>> gb.set_num_threads(gb.get_num_threads())
)");
  m.def("get_num_threads", get_num_threads, R"(How many threads compute on the CPU.

>>> gb.get_num_threads() > 0
True
)");
}

}  // namespace gabbro::python
