#include "backends/gpu/cuda/kernel_compiler.h"

#include <nvrtc.h>

#include <array>
#include <memory>
#include <string_view>

#include "backends/gpu/api.h"
#include "backends/gpu/cuda/library.h"
#include "backends/gpu/embedded_files.h"

namespace gabbro::gpu::api {
namespace {

using abi::StatusCode;

class Compiler {
 public:
  static const Compiler& get() {
    static const Compiler compiler;
    return compiler;
  }

  bool works() const { return works_; }

  decltype(&::nvrtcVersion) version = nullptr;
  decltype(&::nvrtcCreateProgram) create = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy = nullptr;
  decltype(&::nvrtcCompileProgram) compile = nullptr;
  decltype(&::nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) log = nullptr;
  decltype(&::nvrtcGetCUBINSize) code_size = nullptr;
  decltype(&::nvrtcGetCUBIN) code = nullptr;
  decltype(&::nvrtcGetErrorString) error_text = nullptr;

  void check(nvrtcResult result, const char* doing, const std::string& name) const {
    if (result == NVRTC_SUCCESS) return;
    throw ApiError(StatusCode::kFailed, fmt::format("cuda: {} {}: {}", doing, name, error_text(result)));
  }

 private:
  Compiler() {
    void* library = open_library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
    const auto find = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    works_ = library != nullptr && find("nvrtcVersion", version) && find("nvrtcCreateProgram", create) &&
             find("nvrtcDestroyProgram", destroy) && find("nvrtcCompileProgram", compile) &&
             find("nvrtcGetProgramLogSize", log_size) && find("nvrtcGetProgramLog", log) &&
             find("nvrtcGetCUBINSize", code_size) && find("nvrtcGetCUBIN", code) &&
             find("nvrtcGetErrorString", error_text);
  }
  bool works_ = false;
};

// The first line of the compiler's log that names an error.
std::string first_error(const Compiler& compiler, nvrtcProgram program) {
  size_t bytes = 0;
  if (compiler.log_size(program, &bytes) != NVRTC_SUCCESS || bytes == 0) return "no reason given";
  std::string log(bytes, '\0');
  if (compiler.log(program, log.data()) != NVRTC_SUCCESS) return "no reason given";
  size_t begin = log.find("error");
  begin = begin == std::string::npos ? 0 : log.rfind('\n', begin) + 1;  // npos + 1 is the start
  return log.substr(begin, std::min<size_t>(log.find_first_of(std::string_view("\n\0", 2), begin) - begin, 160));
}

}  // namespace

std::string compiler_version() {
  const Compiler& compiler = Compiler::get();
  int major = 0, minor = 0;
  if (!compiler.works() || compiler.version(&major, &minor) != NVRTC_SUCCESS) return {};
  return fmt::format("nvrtc{}.{}", major, minor);
}

std::vector<char> compile_text(const std::string& name, const std::string& text, int capability) {
  const Compiler& compiler = Compiler::get();
  std::vector<const char*> names, texts;
  for (const EmbeddedFile& file : kernel_sources()) {
    names.push_back(file.name);
    texts.push_back(file.data);
  }
  nvrtcProgram created = nullptr;
  compiler.check(compiler.create(&created, text.c_str(), (name + ".cu").c_str(), static_cast<int>(names.size()),
                                 texts.data(), names.data()),
                 "preparing to compile", name);
  const auto destroy = [&](nvrtcProgram program) { compiler.destroy(&program); };
  const std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, decltype(destroy)> program(created, destroy);
  const std::string target = fmt::format("-arch=sm_{}", capability);
  const std::array options = {target.c_str(), "-std=c++20", "-default-device"};
  if (compiler.compile(program.get(), static_cast<int>(options.size()), options.data()) != NVRTC_SUCCESS) {
    throw ApiError(StatusCode::kFailed,
                   fmt::format("cuda: compiling {}: {}", name, first_error(compiler, program.get())));
  }
  size_t bytes = 0;
  compiler.check(compiler.code_size(program.get(), &bytes), "taking the code of", name);
  std::vector<char> code(bytes);
  compiler.check(compiler.code(program.get(), code.data()), "taking the code of", name);
  return code;
}

}  // namespace gabbro::gpu::api
