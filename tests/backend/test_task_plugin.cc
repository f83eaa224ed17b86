// A plugin whose tasks do what their words say: for tests of the child processes that the ROCm plugin starts.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>

// compile SOURCE ARCHITECTURE OUTPUT [TEXT], products WORD
extern "C" __attribute__((visibility("default"))) int gabbro_task(int count, const char* const* words) {
  const char* const source = words[1];
  if (std::strstr(source, "crash") != nullptr) {
    std::fprintf(stderr, "LLVM ERROR: out of registers\n");
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer has its own handler
    std::raise(SIGSEGV);
  }
  if (std::strstr(source, "hang") != nullptr) ::pause();
  if (std::strstr(source, "refused") != nullptr) {
    std::printf("error=%s:7: error: no such register\n", source);
    return 1;
  }
  if (std::strstr(source, "fault") != nullptr) {
    std::printf("fault=rocm: waiting for the device: illegal memory access\n");
    return 1;
  }
  if (std::strstr(source, "silent") != nullptr) return 0;
  std::ofstream output(words[3], std::ios::binary);
  output << "code of " << source << " for " << words[2];
  if (count == 5) output << ": " << std::ifstream(words[4]).rdbuf();
  return 0;
}
