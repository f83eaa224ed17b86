// The state of the runtime in this process, and what each exported function is wrapped in.
#pragma once

#include <sys/types.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <hip/hip_runtime_api.h>

#include "tests/emulated_hip/cards.h"
#include "tests/emulated_hip/engine.h"
#include "tests/emulated_hip/memory.h"
#include "tests/emulated_hip/settings.h"
#include "tests/emulated_hip/statistics.h"

namespace emulated_hip {

// Thrown inside a call: the code that it returns, and why (for EMULATED_GPU_LOG).
struct Failure {
  hipError_t error;
  std::string why;
};

struct Device {
  const Card* card;
  size_t total;        // bytes
  size_t reported;     // to the program: of an integrated device's carve-out
  size_t charged = 0;  // bytes of allocations and mapped ranges
  size_t most_charged = 0;
  hipDeviceProp_t properties;
  std::set<int> peers;  // whose memory it may access
};

class Runtime {
 public:
  static Runtime& get();  // never destroyed

  Settings settings;
  std::mutex mutex;
  Engine engine;
  Memory memory;
  Statistics statistics;
  std::vector<Device> devices;
  std::map<uintptr_t, size_t> registered;  // memory of hipHostRegister
  pid_t pid;                               // of the process that began to use the runtime
  std::map<std::string, uint64_t> counts;  // calls so far, of EMULATED_GPU_FAIL

  int current_device() const;  // throws hipErrorNoDevice without devices
  void set_current_device(int index);
  Device& device(int index);  // throws hipErrorInvalidDevice
  // The stream of a handle; null is the null stream of the current device. Throws hipErrorContextIsDestroyed.
  Stream& stream(hipStream_t handle);

  // Room for `bytes` on the device, or false; charge() takes it.
  bool has_room(const Device& device, size_t bytes) const;
  void charge(Device& device, size_t bytes);

  // Whether this call is the Nth that EMULATED_GPU_FAIL=what:N names.
  bool is_failing(const std::string& what);

  // A GPU fault: the process ends or every later call fails, as the release does. `text` says what happened.
  void fault(hipError_t error, const std::string& text, const void* address);

  bool is_pinned(const void* memory, size_t bytes);

 private:
  Runtime();
  void write_statistics() const;
};

// Runs body(runtime, lock); the result of an exported function. Calls in a forked child and after a fault fail.
hipError_t finish_call(const char* name, hipError_t error, const std::string& why);
hipError_t refused_call(const char* name);  // hipSuccess if the call may be made

template <class Body>
hipError_t call(const char* name, const Body& body) {
  if (const hipError_t refused = refused_call(name); refused != hipSuccess) return refused;
  Runtime& runtime = Runtime::get();
  Lock lock(runtime.mutex);
  if (runtime.engine.fault() != hipSuccess) return finish_call(name, runtime.engine.fault(), "the device has failed");
  try {
    body(runtime, lock);
  } catch (const Failure& failure) {
    return finish_call(name, failure.error, failure.why);
  }
  return hipSuccess;
}

// For the ends of waits.
inline void require_alive(const Runtime& runtime) {
  if (runtime.engine.fault() != hipSuccess) throw Failure{runtime.engine.fault(), "the device has failed"};
}

}  // namespace emulated_hip
