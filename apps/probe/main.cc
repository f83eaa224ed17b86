// gabbro_probe hip|cuda: loads a GPU runtime, asks it for its devices, and prints "key=value" lines. The library starts
// it with a time limit (src/backend/discovery/runtime_probe.cc), since a runtime may hang or end the process.
// gabbro_probe facts: everything that a HIP runtime says of itself (hip_facts.h).
// gabbro_probe copy PLUGIN INDEX FOLDER: the rate of copies from a mapped file (mapped_copy.h). For hip:
//   --loaded FILE      the copy of HIP that the asking process has loaded
//   --packages FOLDER  site-packages of its Python environment; several are possible
// gabbro_probe task PLUGIN HIP WORD...: opens a plugin and lets it run a task that may crash or hang a process (its
// function gabbro_task); HIP is the HIP library for it, or empty.
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

#include "apps/probe/hip_facts.h"
#include "apps/probe/mapped_copy.h"
#include "src/base/hip/search.h"

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

void* load_cuda() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    say("error", ::dlerror());
    end("missing");
  }
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) say("path", map->l_name);
  return library;
}

void* load_hip(const gabbro::hip_search::Settings& settings) {
  const gabbro::hip_search::Found found = gabbro::hip_search::open_hip(settings);
  if (found.library == nullptr) {
    say("error", found.problem);
    end("missing");
  }
  say("path", found.path);
  return found.library;
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

int probe_hip(const gabbro::hip_search::Settings& settings) {
  void* library = load_hip(settings);
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
  void* library = load_cuda();
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

// Its limit is the caller's, who kills it.
int run_task(char** argv, int argc) {
  ::alarm(0);
  if (argv[3][0] != '\0') ::setenv("GABBRO_HIP_PATH", argv[3], 1);
  void* const plugin = ::dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  void* const task = plugin == nullptr ? nullptr : ::dlsym(plugin, "gabbro_task");
  if (task == nullptr) {
    say("error", ::dlerror());
    return 1;
  }
  const int status = reinterpret_cast<int (*)(int, const char* const*)>(task)(argc - 4, argv + 4);
  std::fflush(stdout);
  std::_Exit(status);  // without the runtime's destructors
}

}  // namespace

int main(int argc, char** argv) {
  // Neither a core dump nor a process that outlives its purpose.
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kLongest);
  const std::string kind = argc >= 2 ? argv[1] : "";
  if (kind == "task" && argc >= 5) return run_task(argv, argc);
  auto settings = gabbro::hip_search::Settings::of_process();
  if (kind == "facts" && argc == 2) std::_Exit(gabbro::probe::print_hip_facts(settings));
  if (kind == "copy" && argc == 5) std::_Exit(gabbro::probe::time_mapped_copy(argv[2], std::atoi(argv[3]), argv[4]));
  bool understood = argc % 2 == 0;
  for (int i = 2; understood && i < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--loaded") {
      settings.loaded = argv[i + 1];
    } else if (option == "--packages") {
      settings.packages.emplace_back(argv[i + 1]);
    } else {
      understood = false;
    }
  }
  if (understood && kind == "hip") return probe_hip(settings);
  if (understood && argc == 2 && kind == "cuda") return probe_cuda();
  std::fprintf(
      stderr,
      "gabbro_probe: error: expected hip [--loaded FILE] [--packages FOLDER]..., cuda, facts, copy PLUGIN INDEX FOLDER "
      "or task PLUGIN HIP WORD...\n");
  return 2;
}
