#include "backends/gpu/hip/code_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "backends/gpu/code_cache.h"
#include "backends/gpu/embedded_files.h"
#include "backends/gpu/hip/kernel_compiler.h"

namespace gabbro::gpu::hip {
namespace {

// body(i) for each i below `count`, on as many threads as there are cores. Throws what was thrown first.
template <class Body>
void in_parallel(size_t count, const Body& body) {
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> threads(std::min<size_t>(count, std::max(1U, std::thread::hardware_concurrency())));
    for (std::jthread& thread : threads) thread = std::jthread(work);
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

CodeCache cache_for(const std::string& architecture) {
  return {architecture, fmt::format("hip{}", runtime().version()), kernel_sources()};
}

// "norm" of "kernels/rows/rms_norm.cc".
std::string stem_of(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  return std::string(path.substr(0, path.find('.')));
}

}  // namespace

CodeChoice built_code(std::string_view architecture) {
  std::vector<std::string_view> built;
  for (std::string_view rest = GABBRO_ROCM_TARGETS; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    built.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return choose_code(architecture, built);
}

CodeObjects::CodeObjects(const std::string& architecture) : architecture_(architecture) {
  const CodeChoice choice = built_code(architecture);
  try {
    if (choice.kind != CodeKind::kCompiled && load_images()) {
      description_ = description_of(choice);
    } else {
      load_compiled(architecture);
    }
  } catch (...) {
    for (hipModule_t module : modules_) static_cast<void>(runtime().hipModuleUnload_(module));
    throw;
  }
}

CodeObjects::~CodeObjects() {
  for (hipModule_t module : modules_) static_cast<void>(runtime().hipModuleUnload_(module));
}

// False where this runtime takes none of the plugin's code for the device: those before ROCm 6.3 know no generic
// targets.
bool CodeObjects::load_images() {
  for (const EmbeddedFile& image : code_images()) {
    hipModule_t module = nullptr;
    const hipError_t result = runtime().hipModuleLoadData_(&module, image.data);
    if (result == hipErrorNoBinaryForGpu && modules_.empty()) return false;
    runtime().check(result, fmt::format("loading the kernels of {}", image.name));
    modules_.push_back(module);
  }
  return true;
}

void CodeObjects::load_compiled(const std::string& architecture) {
  const CodeCache cache = cache_for(architecture);
  std::vector<const EmbeddedFile*> sources;
  for (const EmbeddedFile& file : kernel_sources()) {
    if (std::string_view(file.name).ends_with(".cc")) sources.push_back(&file);
  }
  compiled_.resize(sources.size());
  std::atomic<bool> kept = true;
  in_parallel(sources.size(), [&](size_t i) {
    const std::string name = stem_of(sources[i]->name);
    if (auto code = cache.load(name)) {
      compiled_[i] = std::move(*code);
    } else {
      compiled_[i] = compile_kernels(*sources[i], architecture);
      if (!cache.store(name, compiled_[i])) kept = false;
    }
  });
  for (size_t i = 0; i < sources.size(); ++i) {
    hipModule_t module = nullptr;
    runtime().check(runtime().hipModuleLoadData_(&module, compiled_[i].data()),
                    fmt::format("loading the compiled {}", sources[i]->name));
    modules_.push_back(module);
  }
  const std::string folder = cache.folder().empty() ? "$GABBRO_HOME" : cache.folder();
  description_ = kept ? fmt::format("kernels compiled here for {}, kept in {}", architecture, folder)
                      : fmt::format("kernels compiled here for {}; {} cannot be written, so each start compiles them",
                                    architecture, folder);
}

void CodeObjects::add(const std::string& name, const std::string& source) {
  const CodeCache cache = cache_for(architecture_);
  std::optional<std::vector<char>> code = cache.load(name);
  if (!code) {
    code = compile_kernels({name.c_str(), source.c_str(), source.size()}, architecture_);
    cache.store(name, *code);
  }
  compiled_.push_back(std::move(*code));
  hipModule_t module = nullptr;
  runtime().check(runtime().hipModuleLoadData_(&module, compiled_.back().data()),
                  fmt::format("loading the compiled {}", name));
  modules_.push_back(module);
}

hipFunction_t CodeObjects::find(const char* name) const {
  for (hipModule_t module : modules_) {
    hipFunction_t function = nullptr;
    if (runtime().hipModuleGetFunction_(&function, module, name) == hipSuccess) return function;
  }
  return nullptr;
}

}  // namespace gabbro::gpu::hip
