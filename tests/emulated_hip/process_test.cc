#include "tests/emulated_hip/process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace emulated_hip {

Outcome run_in_process(const std::map<std::string, std::string>& variables, const std::function<void()>& body,
                       int seconds) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return {};
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    body();
    std::fflush(nullptr);
    std::exit(testing::Test::HasFailure() ? 1 : 0);  // with what runs at the end
  }
  ::close(ends[1]);
  Outcome outcome;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd waited = {ends[0], POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waited, 1, static_cast<int>(left.count())) == 0) {
      outcome.timed_out = true;
      ::kill(child, SIGKILL);
      break;
    }
    std::array<char, 4096> text{};
    const ssize_t bytes = ::read(ends[0], text.data(), text.size());
    if (bytes <= 0) break;
    outcome.errors.append(text.data(), static_cast<size_t>(bytes));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  return outcome;
}

}  // namespace emulated_hip
