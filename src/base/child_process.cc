#include "src/base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

namespace gabbro {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMostOutput = 64 << 10;
constexpr std::chrono::milliseconds kGrace{1000};  // for a killed process to be gone

// An open file without a name that holds the text; -1: errno says why.
int file_of(const std::string& text) {
  const int file = ::memfd_create("input", MFD_CLOEXEC);
  size_t written = 0;
  while (file >= 0 && written < text.size()) {
    const ssize_t count = ::write(file, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      ::close(file);
      return -1;
    }
    written += static_cast<size_t>(count);
  }
  if (file >= 0) ::lseek(file, 0, SEEK_SET);
  return file;
}

// posix_spawn and not fork: safe in a program with threads, whatever they hold at this moment. `input`: a descriptor;
// -1: none.
int spawn(const ChildRequest& request, int input, int output, pid_t& child) {
  const std::vector<char*> arguments = argument_pointers(request.command);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  if (input >= 0) {
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGXFSZ}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  // A separate process group: a kill reaches what the child started, and Ctrl-C does not reach the child.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  const auto start = request.searches_path ? ::posix_spawnp : ::posix_spawn;
  const int error = start(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Reads until the other end is closed. False when the deadline or the cancellation came first.
bool collect(int descriptor, Clock::time_point deadline, const std::atomic<bool>* cancel, ChildResult& result) {
  constexpr int64_t kCancelStep = 50;  // ms
  std::array<char, 4096> buffer;
  while (cancel == nullptr || !*cancel) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int64_t step = cancel == nullptr ? left : std::min<int64_t>(left, kCancelStep);
    pollfd waiting = {descriptor, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(step)) : 0;
    if ((ready < 0 && errno == EINTR) || (ready == 0 && step < left)) continue;
    if (ready <= 0) return false;
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    const size_t kept = std::min(static_cast<size_t>(got), kMostOutput - result.output.size());
    result.output.append(buffer.data(), kept);
    result.dropped += static_cast<size_t>(got) - kept;
  }
  return false;
}

}  // namespace

std::vector<char*> argument_pointers(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

bool reap_child(pid_t child, std::chrono::steady_clock::time_point deadline, int& status) {
  constexpr int kUnknownStatus = 0xffff;  // neither an exit nor a signal
  for (std::chrono::microseconds pause{200};; pause = std::min(pause * 2, std::chrono::microseconds(10000))) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) {
      status = kUnknownStatus;
      return true;
    }
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
  }
}

std::string describe_child_end(int status) {
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return "an unknown end";
}

ChildResult run_child(const std::vector<std::string>& command, std::chrono::milliseconds limit,
                      const std::atomic<bool>* cancel) {
  return run_child(ChildRequest{.command = command, .limit = limit, .cancel = cancel});
}

ChildResult run_child(const ChildRequest& request) {
  ChildResult result;
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    result.ending = std::strerror(errno);
    return result;
  }
  pid_t child = -1;
  const int input = request.input ? file_of(*request.input) : -1;
  const int error = request.input && input < 0 ? errno : spawn(request, input, ends[1], child);
  if (input >= 0) ::close(input);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    result.ending = std::strerror(error);
    return result;
  }
  result.started = true;
  result.timed_out = !collect(ends[0], Clock::now() + request.limit, request.cancel, result);
  ::close(ends[0]);
  int status = 0;
  const bool ended = !result.timed_out && reap_child(child, Clock::now() + kGrace, status);
  if (!ended) {
    ::kill(-child, SIGKILL);
    reap_child(child, Clock::now() + kGrace, status);
  }
  result.ending = ended ? describe_child_end(status) : "it had to be killed";
  result.succeeded = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return result;
}

}  // namespace gabbro
