#include "src/engine/worker/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "src/base/child_process.h"
#include "src/base/error.h"

namespace gabbro::worker {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kGrace{1000};  // for a killed process to be gone

// A descriptor above those that the child gets, so that none of them is overwritten before it is copied.
int move_up(int descriptor) {
  const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kCrashNote + 1);
  ::close(descriptor);
  return moved;
}

// posix_spawn and not fork: safe in a program with threads, whatever they hold at this moment.
int spawn(const std::vector<std::string>& command, int socket, int note, pid_t& child) {
  const std::vector<char*> arguments = argument_pointers(command);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);  // a runtime may print
  posix_spawn_file_actions_adddup2(&actions, socket, kSocket);
  posix_spawn_file_actions_adddup2(&actions, note, kCrashNote);
  // Ctrl-C reaches the whole group: the child ignores it, and lets it through only then.
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error = ::posix_spawn(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// One line.
std::string read_note(int note) {
  std::array<char, 4096> text;
  const ssize_t got = ::pread(note, text.data(), text.size(), 0);
  std::string_view line(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  line = line.substr(0, line.find('\n'));
  constexpr std::string_view kProgram = "gabbro: ";
  if (line.starts_with(kProgram)) line.remove_prefix(kProgram.size());
  return std::string(line);
}

}  // namespace

Process::Process(const std::vector<std::string>& command) {
  std::array<int, 2> ends;
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw failed("starting the worker: {}", std::strerror(errno));
  socket_ = ends[0];
  const int other = move_up(ends[1]);
  note_ = move_up(::memfd_create("gabbro-crash-note", MFD_CLOEXEC));
  ::fcntl(socket_, F_SETFL, O_NONBLOCK);
  const int error = other < 0 || note_ < 0 ? errno : spawn(command, other, note_, id_);
  ::close(other);
  if (error == 0) return;
  id_ = -1;
  ::close(socket_);
  ::close(note_);
  throw failed("starting the worker, {}: {}", command.front(), std::strerror(error));
}

Process::~Process() {
  end(std::chrono::milliseconds(0));
  ::close(socket_);
  ::close(note_);
}

std::string Process::end(std::chrono::milliseconds limit) {
  if (id_ < 0) return "";
  int status = 0;
  std::string ending;
  if (reap_child(id_, Clock::now() + limit, status)) {
    ending = describe_child_end(status);
  } else {
    ::kill(id_, SIGKILL);
    reap_child(id_, Clock::now() + kGrace, status);  // one that hangs in a driver stays behind
    ending = "it had to be killed";
  }
  id_ = -1;
  const std::string note = read_note(note_);
  return note.empty() ? ending : ending + "; " + note;
}

}  // namespace gabbro::worker
