#include "backends/gpu/hip/kernel_compiler.h"

#include <fmt/format.h>
#include <hip/hiprtc.h>

#include <array>
#include <memory>

#include "backends/gpu/api.h"
#include "backends/gpu/hip/library.h"

namespace gabbro::gpu::hip {
namespace {

using abi::StatusCode;

class Compiler {
 public:
  static const Compiler& open() {
    static const Compiler compiler;
    return compiler;
  }
  // The compiler; throws if there is none.
  static const Compiler& get() {
    const Compiler& compiler = open();
    if (!compiler.works_) {
      throw ApiError(StatusCode::kFailed, "there is no libhiprtc");
    }
    return compiler;
  }

  bool works() const { return works_; }

  decltype(&::hiprtcCreateProgram) create = nullptr;
  decltype(&::hiprtcDestroyProgram) destroy = nullptr;
  decltype(&::hiprtcCompileProgram) compile = nullptr;
  decltype(&::hiprtcGetProgramLogSize) log_size = nullptr;
  decltype(&::hiprtcGetProgramLog) log = nullptr;
  decltype(&::hiprtcGetCodeSize) code_size = nullptr;
  decltype(&::hiprtcGetCode) code = nullptr;
  decltype(&::hiprtcGetErrorString) error_text = nullptr;

  void check(hiprtcResult result, const char* doing, const char* file) const {
    if (result == HIPRTC_SUCCESS) return;
    throw ApiError(StatusCode::kFailed, fmt::format("{} {}: {}", doing, file, error_text(result)));
  }

 private:
  Compiler() {
    void* library = open_library({"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"});
    works_ = library != nullptr && find_function(library, "hiprtcCreateProgram", create) &&
             find_function(library, "hiprtcDestroyProgram", destroy) &&
             find_function(library, "hiprtcCompileProgram", compile) &&
             find_function(library, "hiprtcGetProgramLogSize", log_size) &&
             find_function(library, "hiprtcGetProgramLog", log) &&
             find_function(library, "hiprtcGetCodeSize", code_size) && find_function(library, "hiprtcGetCode", code) &&
             find_function(library, "hiprtcGetErrorString", error_text);
  }
  bool works_ = false;
};

// The first line of the compiler's log that names an error.
std::string first_error(const Compiler& compiler, hiprtcProgram program) {
  size_t bytes = 0;
  if (compiler.log_size(program, &bytes) != HIPRTC_SUCCESS || bytes == 0) return "no reason given";
  std::string log(bytes, '\0');
  if (compiler.log(program, log.data()) != HIPRTC_SUCCESS) return "no reason given";
  size_t begin = log.find("error:");
  begin = begin == std::string::npos ? 0 : log.rfind('\n', begin) + 1;  // npos + 1 is the start
  return log.substr(begin, std::min<size_t>(log.find_first_of(std::string_view("\n\0", 2), begin) - begin, 160));
}

}  // namespace

bool can_compile() { return Compiler::open().works(); }

std::vector<char> compile_kernels(const EmbeddedFile& source, const std::string& architecture) {
  const Compiler& compiler = Compiler::get();
  std::vector<const char*> names, texts;
  for (const EmbeddedFile& file : kernel_sources()) {
    if (!std::string_view(file.name).ends_with(".h")) continue;
    names.push_back(file.name);
    texts.push_back(file.data);
  }
  hiprtcProgram created = nullptr;
  compiler.check(
      compiler.create(&created, source.data, source.name, static_cast<int>(names.size()), texts.data(), names.data()),
      "preparing to compile", source.name);
  const auto destroy = [&](hiprtcProgram program) { compiler.destroy(&program); };
  const std::unique_ptr<std::remove_pointer_t<hiprtcProgram>, decltype(destroy)> program(created, destroy);
  const std::string offload = "--offload-arch=" + architecture;
  const std::array options = {offload.c_str(), "-std=c++20", "-O3"};
  if (compiler.compile(program.get(), static_cast<int>(options.size()), options.data()) != HIPRTC_SUCCESS) {
    throw ApiError(StatusCode::kFailed, first_error(compiler, program.get()));
  }
  size_t bytes = 0;
  compiler.check(compiler.code_size(program.get(), &bytes), "taking the code of", source.name);
  std::vector<char> code(bytes);
  compiler.check(compiler.code(program.get(), code.data()), "taking the code of", source.name);
  return code;
}

}  // namespace gabbro::gpu::hip
