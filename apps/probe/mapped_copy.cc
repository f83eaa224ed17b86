#include "apps/probe/mapped_copy.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "gabbro/backend_abi.h"

namespace gabbro::probe {
namespace {

constexpr size_t kBytes = size_t{256} << 20, kBlock = size_t{1} << 20;

int fail(const char* what) {
  std::printf("error=%s\n", what);
  std::fflush(stdout);  // the program ends without destructors
  return 1;
}

// Null without room for the file, which is removed at once: the mapping keeps it.
const void* mapped_file(const std::string& folder) {
  const std::string path = folder + "/gabbro_mapped_" + std::to_string(::getpid());
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  ::unlink(path.c_str());
  const std::vector<char> block(kBlock, 'x');
  for (size_t at = 0; at < kBytes; at += kBlock) {
    if (::write(file, block.data(), kBlock) != static_cast<ssize_t>(kBlock)) return nullptr;
  }
  void* const mapped = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

int time_mapped_copy(const std::string& plugin, int index, const std::string& folder) {
  void* const library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(::dlerror());
  const auto entry = reinterpret_cast<const abi::Backend* (*)()>(::dlsym(library, abi::kEntryPoint));
  const abi::Backend* const backend = entry == nullptr ? nullptr : entry();
  if (backend == nullptr || backend->abi_version != abi::kVersion) return fail("not a plugin of this version");
  const void* const file = mapped_file(folder);
  if (file == nullptr) return fail("no room for a file of 256 MiB");
  abi::Device* device = nullptr;
  void* memory = nullptr;
  abi::Status status = backend->open(index, nullptr, &device);
  if (status.code != abi::StatusCode::kOk) return fail(status.message);
  status = backend->allocate(device, nullptr, kBytes, &memory);
  if (status.code != abi::StatusCode::kOk) return fail(status.message);
  const auto start = std::chrono::steady_clock::now();
  status = backend->copy_to_device(device, nullptr, memory, file, kBytes);
  if (status.code == abi::StatusCode::kOk) status = backend->synchronize(device, nullptr);
  if (status.code != abi::StatusCode::kOk) return fail(status.message);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  std::printf("rate=%.0f\n", static_cast<double>(kBytes) / time.count());
  std::fflush(stdout);
  return 0;
}

}  // namespace gabbro::probe
