// Runs a program for a limited time and keeps what it says. For programs that may hang where not even a kill reaches
// them (in a kernel driver): then they are left behind, and the caller goes on.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

namespace gabbro {

struct ChildResult {
  bool started = false;
  bool timed_out = false;
  bool succeeded = false;  // ended by itself with exit code 0
  std::string ending;      // "exit code 1", "signal 6 (Aborted)", or why it did not start
  std::string output;      // standard output and error, at most 64 KiB
};

// `command`: the program's path and its arguments. The environment is passed on; standard input is empty. Kills the
// program when `cancel` (may be null) becomes true.
ChildResult run_child(const std::vector<std::string>& command, std::chrono::milliseconds limit,
                      const std::atomic<bool>* cancel = nullptr);

}  // namespace gabbro
