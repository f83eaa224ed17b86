// Runs the Python side of `testgen`: its files are part of the program, and are written to a temporary folder.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

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
  pid_t process = 0;
  const int error = ::posix_spawnp(&process, argv[0], nullptr, nullptr, argv.data(), environ);
  if (error != 0) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: cannot be started: {}", options.python, std::strerror(error)),
                "--python names the interpreter that has torch and transformers");
  }
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) throw failed("{} was ended by signal {}", options.python, WTERMSIG(status));
  return WEXITSTATUS(status);
}

}  // namespace gabbro::cli
