// The child process of a worker: it is started with one end of a socket pair, and ends when the other end is closed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace gabbro::worker {

// Descriptors of the child.
inline constexpr int kSocket = 3;
inline constexpr int kCrashNote = 4;  // a file in memory for the last words of a process that is aborted

// Exit codes of the child.
inline constexpr int kLostDevice = 75;
inline constexpr int kBadMessage = 76;

class Process {
 public:
  // Starts `command`, whose standard output goes to this process's standard error. Throws failed().
  explicit Process(const std::vector<std::string>& command);
  ~Process();  // kills it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int socket() const { return socket_; }  // does not block
  pid_t id() const { return id_; }

  // Waits for its end, and kills it at the deadline. Returns how it ended, in words: "exit code 75", "signal 6
  // (Aborted)", and what it left in its crash note.
  std::string end(std::chrono::milliseconds limit);

 private:
  int socket_ = -1, note_ = -1;
  pid_t id_ = -1;  // -1: it has ended
};

}  // namespace gabbro::worker
