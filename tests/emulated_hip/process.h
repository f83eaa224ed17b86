// Runs a test's body in a child process with its variables: the runtime reads them once.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace emulated_hip {

struct Outcome {
  int code = -1;   // of its exit; -1 after a signal
  int signal = 0;  // that ended it
  bool timed_out = false;
  std::string errors;  // its standard error
};

// The body's expectations that fail make the code 1. The child is ended after `seconds`.
Outcome run_in_process(const std::map<std::string, std::string>& variables, const std::function<void()>& body,
                       int seconds = 20);

}  // namespace emulated_hip
