// gabbro_probe hip|cuda: loads a GPU runtime, asks it for its devices, and prints "key=value" lines. The library starts
// it with a time limit (src/backend/discovery/runtime_probe.cc), since a runtime may hang or end the process.
#include <dlfcn.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr unsigned kLongest = 60;  // seconds; the caller's own limit is shorter

void say(const char* key, const std::string& value) {
  std::printf("%s=%s\n", key, value.c_str());
  std::fflush(stdout);  // a crash must not take it along
}

int end(const char* state) {
  say("state", state);
  std::_Exit(0);  // without the runtime's destructors, which are known to hang as well
}

int end_with(const std::string& error) {
  say("error", error);
  return end("failed");
}

void* load(const std::vector<std::string>& names) {
  std::string why;
  for (const std::string& name : names) {
    if (void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      link_map* map = nullptr;
      if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) say("path", map->l_name);
      return library;
    }
    // The first name is the usual one; a library that is there but lacks another one is worth more than "not found".
    const std::string error = ::dlerror();
    if (why.empty() || error.find("No such file") == std::string::npos) why = error;
  }
  say("error", why);
  end("missing");
  return nullptr;
}

template <class Function>
Function* symbol(void* library, const char* name) {
  auto* found = reinterpret_cast<Function*>(::dlsym(library, name));
  if (found == nullptr) end_with(std::string("it has no function ") + name);
  return found;
}

void add_device(std::string& devices, const char* address) {
  if (!devices.empty()) devices += ',';
  devices += address;
}

int probe_hip() {
  std::vector<std::string> names = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"};
  const char* rocm = std::getenv("ROCM_PATH");
  for (const std::string folder : {rocm != nullptr ? rocm : "", "/opt/rocm"}) {
    if (!folder.empty()) names.push_back(folder + "/lib/libamdhip64.so");
  }
  void* library = load(names);
  const auto text = symbol<const char*(int)>(library, "hipGetErrorString");
  int version = 0, count = 0;
  if (symbol<int(int*)>(library, "hipRuntimeGetVersion")(&version) == 0) {
    say("version", std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100) + "." +
                       std::to_string(version % 100000));
  }
  constexpr int kNoDevice = 100;
  const int error = symbol<int(int*)>(library, "hipGetDeviceCount")(&count);
  if (error != 0 && error != kNoDevice) return end_with(text(error));
  std::string devices;
  const auto address_of = symbol<int(char*, int, int)>(library, "hipDeviceGetPCIBusId");
  for (int i = 0; error == 0 && i < count; ++i) {
    char address[64] = "";
    add_device(devices, address_of(address, sizeof(address), i) == 0 ? address : "unknown");
  }
  say("devices", devices);
  return end("ok");
}

int probe_cuda() {
  void* library = load({"libcuda.so.1"});
  const auto text = symbol<int(int, const char**)>(library, "cuGetErrorString");
  int version = 0, count = 0;
  if (symbol<int(int*)>(library, "cuDriverGetVersion")(&version) == 0) {
    say("version", std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10));
  }
  constexpr int kNoDevice = 100;
  int error = symbol<int(unsigned)>(library, "cuInit")(0);
  if (error == 0) error = symbol<int(int*)>(library, "cuDeviceGetCount")(&count);
  if (error != 0 && error != kNoDevice) {
    const char* message = nullptr;
    text(error, &message);
    return end_with(message != nullptr ? message : "error " + std::to_string(error));
  }
  std::string devices;
  const auto address_of = symbol<int(char*, int, int)>(library, "cuDeviceGetPCIBusId");
  for (int i = 0; error == 0 && i < count; ++i) {
    char address[64] = "";
    add_device(devices, address_of(address, sizeof(address), i) == 0 ? address : "unknown");
  }
  say("devices", devices);
  return end("ok");
}

}  // namespace

int main(int argc, char** argv) {
  // Neither a core dump nor a process that outlives its purpose.
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kLongest);
  const std::string kind = argc == 2 ? argv[1] : "";
  if (kind == "hip") return probe_hip();
  if (kind == "cuda") return probe_cuda();
  std::fprintf(stderr, "gabbro_probe: error: expected one argument, hip or cuda\n");
  return 2;
}
