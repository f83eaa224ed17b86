// Calls HIP's functions by their C types, without its headers. HIP 6 and 7 share the layouts and numbers used here.
#include "apps/probe/hip_facts.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace gabbro::probe {
namespace {

// hipDeviceProp_tR0600: 1472 bytes; the name, then the UUID and LUID, which are left out, up to byte 284.
constexpr size_t kProperties = 4096, kUuid = 256, kUuidEnd = 284, kArchitecture = 1160;
// Numbers of hipDeviceAttribute_t: attributes that CUDA has too, then AMD's.
constexpr std::array<std::array<int, 2>, 2> kAttributes = {{{0, 120}, {10000, 10060}}};

class Line {
 public:
  explicit Line(const char* fact) : text_(fmt::format(R"({{"fact":"{}")", fact)) {}
  ~Line() {
    std::printf("%s}\n", text_.c_str());
    std::fflush(stdout);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  template <class T>
  Line& number(const char* key, T value) {
    text_ += fmt::format(R"(,"{}":{})", key, value);
    return *this;
  }
  Line& text(const char* key, std::string_view value) {
    text_ += fmt::format(R"(,"{}":")", key);
    for (const char c : value) {
      if (c == '"' || c == '\\') text_ += '\\';
      text_ += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c;
    }
    text_ += '"';
    return *this;
  }

 private:
  std::string text_;
};

template <class Body>
double seconds_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// hipMemAllocationProp for memory of a device: kind pinned, no handle, location {device, index}.
struct AllocationProp {
  int kind = 1, handle = 0, location = 1, device = 0;
  std::array<char, 48> rest = {};
};

class Hip {
 public:
  explicit Hip(void* library) : library_(library) {}

  // Null where the runtime lacks the function.
  template <class... Arguments>
  auto find(const char* name) const {
    return reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
  }
  // The result of a call, or -1 where the runtime lacks the function.
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    const auto function = find<Arguments...>(name);
    return function == nullptr ? -1 : function(arguments...);
  }

 private:
  void* library_;
};

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000000, version / 100000 % 100, version % 100000);
}

void print_attributes(const Hip& hip, int device) {
  for (const auto& [first, last] : kAttributes) {
    for (int attribute = first; attribute < last; ++attribute) {
      int value = 0;
      const int error = hip.call<int*, int, int>("hipDeviceGetAttribute", &value, attribute, device);
      Line line("attribute");
      line.number("device", device).number("number", attribute);
      error == 0 ? line.number("value", value) : line.number("error", error);
    }
  }
}

// The architecture that the properties name.
std::string print_properties(const Hip& hip, int device) {
  std::vector<unsigned char> properties(kProperties);
  const int error = hip.call<void*, int>("hipGetDevicePropertiesR0600", properties.data(), device);
  std::string name, architecture, bytes;
  if (error == 0) {
    const auto* const text = reinterpret_cast<const char*>(properties.data());
    name.assign(text, ::strnlen(text, kUuid));
    architecture.assign(text + kArchitecture, ::strnlen(text + kArchitecture, 256));
    std::fill(properties.begin() + kUuid, properties.begin() + kUuidEnd, 0);
    size_t end = properties.size();
    while (end > 0 && properties[end - 1] == 0) --end;
    for (size_t i = 0; i < end; ++i) bytes += fmt::format("{:02x}", properties[i]);
  }
  Line("properties")
      .number("device", device)
      .number("error", error)
      .text("name", name)
      .text("architecture", architecture)
      .text("bytes", bytes);
  return architecture;
}

void print_memory(const Hip& hip, int device, const char* when) {
  size_t free = 0, total = 0;
  const int error = hip.call<size_t*, size_t*>("hipMemGetInfo", &free, &total);
  Line("memory")
      .number("device", device)
      .text("when", when)
      .number("error", error)
      .number("free", free)
      .number("total", total);
}

void print_memory_facts(const Hip& hip, int device) {
  for (const int kind : {0, 1}) {  // minimum, recommended
    AllocationProp prop{.device = device};
    size_t granularity = 0;
    const int error = hip.call<size_t*, const void*, int>("hipMemGetAllocationGranularity", &granularity, &prop, kind);
    Line("granularity")
        .number("device", device)
        .number("kind", kind)
        .number("error", error)
        .number("bytes", granularity);
  }
  constexpr size_t kAllocated = size_t{256} << 20;
  print_memory(hip, device, "before");
  void* memory = nullptr;
  const int error = hip.call<void**, size_t>("hipMalloc", &memory, kAllocated);
  Line("allocation").number("device", device).number("bytes", kAllocated).number("error", error);
  print_memory(hip, device, "allocated");
  if (error == 0) hip.call<void*>("hipFree", memory);
  print_memory(hip, device, "after");
}

int load(const Hip& hip, const void* image, double& seconds) {
  void* module = nullptr;
  int error = 0;
  seconds = seconds_of([&] { error = hip.call<void**, const void*>("hipModuleLoadData", &module, image); });
  if (error == 0) hip.call<void*>("hipModuleUnload", module);
  return error;
}

// A small kernel compiled for the target; empty with the error where that fails.
std::vector<char> compiled(const Hip& rtc, const std::string& target, int& error) {
  void* program = nullptr;
  error = rtc.call<void**, const char*, const char*, int, const char**, const char**>(
      "hiprtcCreateProgram", &program, R"(extern "C" __global__ void fill(float* x) { x[threadIdx.x] = 1; })",
      "fill.cc", 0, nullptr, nullptr);
  if (error != 0) return {};
  const std::string option = "--offload-arch=" + target;
  const char* options[] = {option.c_str()};
  error = rtc.call<void*, int, const char**>("hiprtcCompileProgram", program, 1, options);
  size_t bytes = 0;
  std::vector<char> code;
  if (error == 0) error = rtc.call<void*, size_t*>("hiprtcGetCodeSize", program, &bytes);
  if (error == 0) {
    code.resize(bytes);
    error = rtc.call<void*, char*>("hiprtcGetCode", program, code.data());
  }
  rtc.call<void**>("hiprtcDestroyProgram", &program);
  return code;
}

// "gfx11-generic" for "gfx1100"; empty if no generic target, or more than one, is known.
std::string generic_target(const std::string& target) {
  if (target.starts_with("gfx11")) return "gfx11-generic";
  if (target.starts_with("gfx12")) return "gfx12-generic";
  if (target.starts_with("gfx103")) return "gfx10-3-generic";
  if (target.starts_with("gfx101")) return "gfx10-1-generic";
  if (target.starts_with("gfx94")) return "gfx9-4-generic";
  if (target.starts_with("gfx90")) return "gfx9-generic";
  return {};
}

void print_compiled(const Hip& hip, const hip_search::Settings& settings, const std::string& hip_path, int device,
                    const std::string& architecture) {
  void* const library =
      hip_search::open_with_hip(settings, hip_path, {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"});
  Line("hiprtc").number("found", library != nullptr);
  if (library == nullptr) return;
  const Hip rtc(library);
  for (const std::string& target : {architecture, generic_target(architecture.substr(0, architecture.find(':')))}) {
    if (target.empty()) continue;
    int error = 0;
    std::vector<char> code;
    const double compiling = seconds_of([&] { code = compiled(rtc, target, error); });
    Line("compiled")
        .number("device", device)
        .text("target", target)
        .number("error", error)
        .number("seconds", compiling)
        .number("bytes", code.size());
    if (error != 0) continue;
    double seconds = 0;
    const int loaded = load(hip, code.data(), seconds);
    Line("loaded").number("device", device).text("target", target).number("error", loaded).number("seconds", seconds);
  }
}

// Images that no runtime takes: which error each gives. A runtime that crashes on one ends the lines here.
void print_bad_images(const Hip& hip, int device) {
  std::string zeros(4096, '\0'), words(4096, 'x'), bundle = zeros, packed = zeros;
  std::memcpy(bundle.data(), "__CLANG_OFFLOAD_BUNDLE__", 24);  // without entries
  const auto header = [&](uint16_t version) {
    std::memcpy(packed.data(), "CCOB", 4);
    std::memcpy(packed.data() + 4, &version, sizeof version);
  };
  const auto print = [&](const char* what, const std::string& image) {
    Line("bad image begins").text("image", what);
    double seconds = 0;
    const int error = load(hip, image.data(), seconds);
    Line("bad image").number("device", device).text("image", what).number("error", error).number("seconds", seconds);
  };
  print("bundle without entries", bundle);
  print("text", words);
  print("zeros", zeros);
  header(2);
  print("compressed bundle 2, empty", packed);
  header(3);
  print("compressed bundle 3, empty", packed);
}

}  // namespace

int print_hip_facts(const hip_search::Settings& settings) {
  const hip_search::Found found = hip_search::open_hip(settings);
  if (found.library == nullptr) {
    Line("runtime").text("state", "missing").text("problem", found.problem);
    return 0;
  }
  const Hip hip(found.library);
  Line("runtime").text("state", "loaded").text("path", found.path);
  int error = 0, version = 0, driver = 0, count = 0;
  const double init = seconds_of([&] { error = hip.call<unsigned>("hipInit", 0); });
  Line("init").number("error", error).number("seconds", init);
  hip.call<int*>("hipRuntimeGetVersion", &version);
  hip.call<int*>("hipDriverGetVersion", &driver);
  Line("version").text("runtime", version_text(version)).text("driver", version_text(driver));
  error = hip.call<int*>("hipGetDeviceCount", &count);
  Line("devices").number("error", error).number("count", count);
  for (int device = 0; error == 0 && device < count; ++device) {
    std::array<char, 64> address = {};
    hip.call<char*, int, int>("hipDeviceGetPCIBusId", address.data(), static_cast<int>(address.size() - 1), device);
    Line("device").number("device", device).text("pci_address", address.data());
    const std::string architecture = print_properties(hip, device);
    print_attributes(hip, device);
    double selecting = 0;
    int selected = 0;
    selecting = seconds_of([&] { selected = hip.call<int>("hipSetDevice", device); });
    Line("selected").number("device", device).number("error", selected).number("seconds", selecting);
    if (selected != 0) continue;
    print_memory_facts(hip, device);
    if (!architecture.empty()) print_compiled(hip, settings, found.path, device, architecture);
  }
  if (error == 0 && count > 0) print_bad_images(hip, 0);
  Line("end");
  return 0;
}

}  // namespace gabbro::probe
