// Runs the Python side of `testgen`: its files are part of the program, and are written to a temporary folder.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "apps/cli/signals_held.h"
#include "apps/cli/testgen_options.h"
#include "src/base/error.h"
#include "src/testgen/embedded.h"

extern char** environ;

namespace gabbro::cli {
namespace {

namespace fs = std::filesystem;

void write_files(const fs::path& folder) {
  for (const testgen::EmbeddedFile& file : testgen::embedded_files()) {
    if (!file.name.starts_with("run/")) continue;
    const fs::path path = folder / fs::path(file.name).filename();
    std::ofstream out(path, std::ios::binary);
    out << file.text;
    out.close();
    if (!out) throw failed("{}: cannot be written", path.string());
  }
}

// Starts argv[0] of the path, which gets signals as this program did.
int spawn(pid_t& process, std::vector<char*>& argv, const sigset_t& mask) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &mask);
  const int error = ::posix_spawnp(&process, argv[0], nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  return error;
}

// (status of the process, the signal that stopped this program meanwhile or 0). A signal that was sent to this program
// only is passed on; Ctrl-C reaches both.
std::pair<int, int> wait_for(pid_t process) {
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGINT);
  sigaddset(&awaited, SIGTERM);
  int status = 0, stopped_by = 0;
  for (;;) {
    const pid_t done = ::waitpid(process, &status, WNOHANG);
    if (done == process) return {status, stopped_by};
    const timespec pause = {.tv_sec = 0, .tv_nsec = 20'000'000};
    siginfo_t info = {};
    const int signal = ::sigtimedwait(&awaited, &info, &pause);
    if (signal <= 0) continue;
    stopped_by = signal;
    if (info.si_code == SI_USER || signal == SIGTERM) ::kill(process, signal);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "gabbro-testgen-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw failed("{}: cannot be created: {}", pattern, std::strerror(errno));
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

int run_python(const TestgenOptions& options, const std::string& script, const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  write_files(folder.path());
  std::vector<std::string> words = {options.python, "-B", (folder.path() / script).string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::setenv("HF_HUB_OFFLINE", "1", 0);  // nothing is downloaded, unless the user says so
  std::error_code unknown;
  const fs::path self = fs::read_symlink("/proc/self/exe", unknown);
  if (!unknown) ::setenv("GABBRO_PROGRAM", self.c_str(), 0);  // the engine of the check parity
  const SignalsHeld held;  // they end Python, and this program after it, so that nothing is left
  pid_t process = 0;
  const int error = spawn(process, argv, held.before());
  if (error != 0) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: cannot be started: {}", options.python, std::strerror(error)),
                "--python names the interpreter that has torch and transformers");
  }
  const auto [status, stopped_by] = wait_for(process);
  if (stopped_by != 0) return 128 + stopped_by;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) return 128 + SIGPIPE;  // nothing reads its output any more
  if (WIFSIGNALED(status)) throw failed("{} was ended by signal {}", options.python, WTERMSIG(status));
  return WEXITSTATUS(status);
}

}  // namespace gabbro::cli
