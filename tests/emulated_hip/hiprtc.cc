// The run-time compiler: returns images of host kernels for sources that the simulator was built with, and refuses all
// others, as there is no host code for them.
#include <hip/hiprtc.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "tests/emulated_hip/image.h"
#include "tests/emulated_hip/library_calls.h"

namespace {

struct Program {
  std::string name;
  std::string log;
  std::string code;
};

Program* program_of(hiprtcProgram handle) { return reinterpret_cast<Program*>(handle); }

}  // namespace

#pragma GCC visibility push(default)

const char* hiprtcGetErrorString(hiprtcResult result) {
  switch (result) {
    case HIPRTC_SUCCESS:
      return "HIPRTC_SUCCESS";
    case HIPRTC_ERROR_INVALID_INPUT:
      return "HIPRTC_ERROR_INVALID_INPUT";
    case HIPRTC_ERROR_INVALID_PROGRAM:
      return "HIPRTC_ERROR_INVALID_PROGRAM";
    case HIPRTC_ERROR_COMPILATION:
      return "HIPRTC_ERROR_COMPILATION";
    default:
      return "HIPRTC_ERROR_INTERNAL_ERROR";
  }
}

hiprtcResult hiprtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  *major = 9;
  *minor = 0;
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcCreateProgram(hiprtcProgram* program, const char* source, const char* name, int count,
                                 const char* const* headers, const char* const* include_names) {
  if (program == nullptr || source == nullptr || (count > 0 && (headers == nullptr || include_names == nullptr)))
    return HIPRTC_ERROR_INVALID_INPUT;
  auto made = std::make_unique<Program>();
  if (name != nullptr) made->name = name;
  *program = reinterpret_cast<hiprtcProgram>(made.release());
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcDestroyProgram(hiprtcProgram* program) {
  if (program == nullptr || *program == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  delete program_of(*program);
  *program = nullptr;
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcCompileProgram(hiprtcProgram handle, int count, const char* const* options) {
  if (handle == nullptr) return HIPRTC_ERROR_INVALID_PROGRAM;
  Program& program = *program_of(handle);
  std::string target;
  constexpr std::string_view kOffload = "--offload-arch=";
  for (int i = 0; i < count; ++i) {
    if (std::string_view(options[i]).starts_with(kOffload)) target = options[i] + kOffload.size();
  }
  target = target.substr(0, target.find(':'));
  if (!emulated_hip::machine_of(target)) {
    program.log = "error: unknown target '" + target + "'\n";
    return HIPRTC_ERROR_COMPILATION;
  }
  if (!emulated_hip::has_source(program.name.c_str())) {
    program.log = "error: " + program.name + " has no host code\n";
    return HIPRTC_ERROR_COMPILATION;
  }
  program.code = emulated_hip::make_image(target, program.name);
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram handle, size_t* bytes) {
  if (handle == nullptr || bytes == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  *bytes = program_of(handle)->log.size() + 1;
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcGetProgramLog(hiprtcProgram handle, char* log) {
  if (handle == nullptr || log == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  std::memcpy(log, program_of(handle)->log.c_str(), program_of(handle)->log.size() + 1);
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcGetCodeSize(hiprtcProgram handle, size_t* bytes) {
  if (handle == nullptr || bytes == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  *bytes = program_of(handle)->code.size();
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcGetCode(hiprtcProgram handle, char* code) {
  if (handle == nullptr || code == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  std::memcpy(code, program_of(handle)->code.data(), program_of(handle)->code.size());
  return HIPRTC_SUCCESS;
}

#pragma GCC visibility pop
