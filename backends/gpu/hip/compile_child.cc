#include "backends/gpu/hip/compile_child.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "backends/gpu/api.h"

namespace gabbro::gpu::hip {
namespace {

namespace fs = std::filesystem;

// linear_batch takes 50 s on a core of a server; four at a time on a slow laptop take ten times as long.
constexpr std::chrono::seconds kLimit{900};

class ScratchFolder {
 public:
  ScratchFolder() : path_((fs::temp_directory_path() / "gabbro_compile_XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw ApiError(abi::StatusCode::kFailed,
                     fmt::format("rocm: {} cannot be made for the compiler: {}", path_, std::strerror(errno)));
    }
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace

std::vector<char> compile_in_child(const HelperProgram& program, const std::string& architecture,
                                   const std::string& source, std::string_view text, const std::atomic<bool>* cancel) {
  const ScratchFolder scratch;
  const std::string output = scratch.file("code"), input = scratch.file("text");
  std::vector<std::string> words = {"compile", source, architecture, output};
  if (!text.empty()) {
    std::ofstream(input, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
    words.push_back(input);
  }
  HelperAnswer answer = run_helper(program, words, "the compiler", kLimit, cancel);
  std::vector<char> code;
  if (answer.succeeded) {
    std::ifstream file(output, std::ios::binary);
    code.assign(std::istreambuf_iterator<char>(file), {});
    if (code.empty()) answer.problem = fmt::format("the compiler wrote no code to {}", output);
  }
  if (code.empty()) {
    throw ApiError(abi::StatusCode::kFailed,
                   fmt::format("rocm: compiling {} for {}: {}", source, architecture, answer.problem));
  }
  return code;
}

}  // namespace gabbro::gpu::hip
