// A GPU runtime that does what GABBRO_TEST_RUNTIME says: the functions that gabbro_probe asks of libamdhip64 and of
// libcuda, in one library. It answers like one with two cards, hangs, aborts, or fails. Its version of HIP is in the
// file hip_version next to it, or 7.2.53211.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

constexpr int kNoDevice = 100, kOther = 999;

bool told(const char* what) {
  const char* mode = std::getenv("GABBRO_TEST_RUNTIME");
  return mode != nullptr && std::strcmp(mode, what) == 0;
}

int count(int* devices) {
  if (told("hang")) ::pause();
  if (told("abort")) {
    std::fprintf(stderr, "rocBLAS error: could not load something\n");
    std::abort();
  }
  if (told("exit")) std::_Exit(0);
  *devices = 2;
  return told("fail") ? kOther : told("no_device") ? kNoDevice : 0;
}

int address(char* text, int size, int device) {
  std::snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", 0xc0 + device);
  return 0;
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) int hipRuntimeGetVersion(int* version) {
  *version = 70253211;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&hipRuntimeGetVersion), &info) != 0) {
    const std::string path = info.dli_fname;
    std::ifstream(path.substr(0, path.rfind('/')) + "/hip_version") >> *version;
    if (*version == 0) *version = 70253211;
  }
  return 0;
}
__attribute__((visibility("default"))) const char* hipGetErrorString(int) { return "unknown error"; }
__attribute__((visibility("default"))) int hipGetDeviceCount(int* devices) { return count(devices); }
__attribute__((visibility("default"))) int hipDeviceGetPCIBusId(char* text, int size, int device) {
  return address(text, size, device);
}
__attribute__((visibility("default"))) int cuInit(unsigned) { return 0; }
__attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
  *version = 12080;
  return 0;
}
__attribute__((visibility("default"))) int cuGetErrorString(int, const char** text) {
  *text = "unknown error";
  return 0;
}
__attribute__((visibility("default"))) int cuDeviceGetCount(int* devices) { return count(devices); }
__attribute__((visibility("default"))) int cuDeviceGetPCIBusId(char* text, int size, int device) {
  return address(text, size, device);
}
}
