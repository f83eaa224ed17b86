// Runs a program for a limited time and keeps what it says. For programs that may hang where not even a kill reaches
// them (in a kernel driver): then they are left behind, and the caller goes on.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace gabbro {

struct ChildResult {
  bool started = false;
  bool timed_out = false;
  bool succeeded = false;  // ended by itself with exit code 0
  std::string ending;      // "exit code 1", "signal 6 (Aborted)", or why it did not start
  std::string output;      // standard output and error, at most 64 KiB
  size_t dropped = 0;      // bytes of the output after these
};

struct ChildRequest {
  std::vector<std::string> command;    // the program and its arguments
  std::optional<std::string> input{};  // standard input; nothing: it is empty
  bool searches_path = false;          // a program without a slash is looked for in PATH
  std::chrono::milliseconds limit{};
  const std::atomic<bool>* cancel = nullptr;
};

// As below, with these options. The child gets the default actions of SIGPIPE and SIGXFSZ.
ChildResult run_child(const ChildRequest& request);

// `command`: the program's path and its arguments. The environment is passed on; standard input is empty. Kills the
// program when `cancel` (may be null) becomes true.
ChildResult run_child(const std::vector<std::string>& command, std::chrono::milliseconds limit,
                      const std::atomic<bool>* cancel = nullptr);

// The pieces of it, for children that are started in another manner.

// The argv of posix_spawn; `command` has to outlive it.
std::vector<char*> argument_pointers(const std::vector<std::string>& command);
// Waits for the child's end until the deadline. False if it still runs. If the host program ignores SIGCHLD, the status
// is lost and becomes one that is neither an exit nor a signal.
bool reap_child(pid_t child, std::chrono::steady_clock::time_point deadline, int& status);
std::string describe_child_end(int status);  // "exit code 1", "signal 6 (Aborted)"

}  // namespace gabbro
