#include "backends/gpu/hip/code_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/gpu/api.h"
#include "backends/gpu/embedded_files.h"
#include "backends/gpu/hip/code_archive.h"
#include "backends/gpu/hip/compile_child.h"
#include "backends/gpu/hip/kernel_compiler.h"
#include "backends/gpu/hip/kernel_files.h"
#include "backends/gpu/hip/progress.h"

namespace gabbro::gpu::hip {
namespace {

// Loaded first: the smallest source, whose kernel every language model needs.
constexpr std::string_view kFirstSource = "kernels/rows/rms_norm.cc";

// Sources of language models, those that take longest to compile first (linear_batch: 50 s for gfx1201, softmax_topk:
// 0.6 s). When one of kBeginnings is compiled, which is needed when weights are packed or the first step is planned,
// the others are begun.
constexpr auto kCompanions = std::to_array<std::string_view>({
    "kernels/linear/linear_batch.cc",
    "kernels/linear/linear_tiled.cc",
    "kernels/linear/linear_small_batch_q.cc",
    "kernels/elementwise/elementwise.cc",
    "kernels/rows/reduce.cc",
    "kernels/linear/linear_decode_q.cc",
    "kernels/elementwise/cast.cc",
    "kernels/attention/attention_decode.cc",
    "kernels/linear/convert_f16.cc",
    "kernels/attention/attention_decode_matrix.cc",
    "kernels/attention/attention_tiled.cc",
    "kernels/attention/rope_kv.cc",
    "kernels/rows/read_rows.cc",
    "kernels/sampling/sampling.cc",
    "kernels/rows/softmax_topk.cc",
});
constexpr auto kBeginnings = std::to_array<std::string_view>(
    {"kernels/linear/pack.cc", "kernels/rows/read_rows.cc", "kernels/attention/rope_kv.cc"});

const CodeArchive& archive() {
  static const CodeArchive archive(code_images().empty() ? std::string_view() : code_images().front().text());
  return archive;
}

CodeCache cache_for(const std::string& architecture) {
  return {architecture, fmt::format("hip{}", runtime().version()), kernel_sources()};
}

// Errors of a runtime that does not take a code object: one of another target or format, or of a generic target, which
// runtimes before ROCm 6.3 do not know.
bool is_refusal(hipError_t result) {
  return result == hipErrorNoBinaryForGpu || result == hipErrorInvalidValue || result == hipErrorInvalidImage ||
         result == hipErrorInvalidKernelFile || result == hipErrorSharedObjectInitFailed;
}

}  // namespace

CodeChoice built_code(std::string_view architecture) { return choose_code(architecture, archive().targets()); }

CodeObjects::CodeObjects(const std::string& architecture)
    : architecture_(architecture),
      cache_(cache_for(architecture)),
      choice_(built_code(architecture)),
      compilations_(
          [this](const std::string& source, const std::atomic<bool>& cancel) { return compile(source, {}, &cancel); }) {
  load(kFirstSource);
}

CodeObjects::~CodeObjects() {
  for (const auto& [name, loaded] : modules_) static_cast<void>(runtime().hipModuleUnload_(loaded.module));
}

hipModule_t CodeObjects::load(std::string_view source) {
  if (const auto known = modules_.find(source); known != modules_.end()) return known->second.module;
  Loaded loaded;
  if (choice_.kind == CodeKind::kCompiled || !load_built(source, loaded)) {
    begin_companions(source);
    load_compiled(std::string(stem_of(source)), loaded, [&] { return compilations_.take(std::string(source)); });
  }
  return modules_.emplace(source, std::move(loaded)).first->second.module;
}

// False if the runtime refuses the plugin's code.
bool CodeObjects::load_built(std::string_view source, Loaded& loaded) {
  auto code = archive().unpack(choice_.target, stem_of(source));
  if (!code) {
    throw ApiError(abi::StatusCode::kFailed,
                   fmt::format("rocm: the plugin has no code of {} for {}", source, choice_.target));
  }
  loaded.code = std::move(*code);
  const hipError_t result = runtime().hipModuleLoadData_(&loaded.module, loaded.code.data());
  if (is_refusal(result)) {
    refusal_ = fmt::format("the runtime refuses the plugin's {} kernels ({})", choice_.target,
                           runtime().hipGetErrorString_(result));
    choice_ = {.kind = CodeKind::kCompiled, .target = std::string(target_of(architecture_))};
    return false;
  }
  runtime().check(result, fmt::format("loading the kernels of {}", source));
  return true;
}

void CodeObjects::load_compiled(const std::string& name, Loaded& loaded,
                                const std::function<std::vector<char>()>& compile) {
  if (auto code = cache_.load(name)) {
    loaded.code = std::move(*code);
  } else {
    if (!hip::can_compile()) {
      throw ApiError(abi::StatusCode::kFailed,
                     fmt::format("rocm: {}, and there is no libhiprtc to compile them",
                                 refusal_.empty() ? "the plugin has no kernels for " + architecture_ : refusal_));
    }
    loaded.code = compile();
  }
  runtime().check(runtime().hipModuleLoadData_(&loaded.module, loaded.code.data()),
                  fmt::format("loading the compiled {}", name));
}

// Called by the threads of compilations_ too.
std::vector<char> CodeObjects::compile(const std::string& source, std::string_view text,
                                       const std::atomic<bool>* cancel) {
  report_progress(fmt::format("compiling {} for {}", stem_of(source), architecture_));
  std::vector<char> code = compile_in_child(HelperProgram::next_to_plugin(), architecture_, source, text, cancel);
  if (!cache_.store(std::string(stem_of(source)), code)) cached_ = false;
  return code;
}

void CodeObjects::begin_companions(std::string_view source) {
  if (std::ranges::count(kBeginnings, source) == 0 || !hip::can_compile() || std::exchange(companions_begun_, true))
    return;
  for (const std::string_view companion : kCompanions) {
    if (companion != source && !modules_.contains(companion) && !cache_.load(std::string(stem_of(companion))))
      compilations_.begin(std::string(companion));
  }
}

hipFunction_t CodeObjects::find(const std::string& kernel) {
  const std::string_view source = source_of_kernel(kernel);
  hipModule_t module = nullptr;
  if (!source.empty()) {
    module = load(source);
  } else if (const auto added = modules_.find(kernel); added != modules_.end()) {
    module = added->second.module;
  } else {
    return nullptr;
  }
  hipFunction_t function = nullptr;
  return runtime().hipModuleGetFunction_(&function, module, kernel.c_str()) == hipSuccess ? function : nullptr;
}

hipFunction_t CodeObjects::add(const std::string& name, const std::string& source) {
  Loaded loaded;
  load_compiled(name, loaded, [&] { return compile(name, source, nullptr); });
  modules_.insert_or_assign(name, std::move(loaded));
  return find(name);
}

std::string CodeObjects::description() const {
  if (choice_.kind != CodeKind::kCompiled) return description_of(choice_);
  const std::string folder = cache_.folder().empty() ? "$GABBRO_HOME" : cache_.folder();
  const std::string text =
      cached_ ? fmt::format("kernels compiled here for {}, cached in {}", architecture_, folder)
              : fmt::format("kernels compiled here for {}; {} cannot be written, so each start compiles them",
                            architecture_, folder);
  return refusal_.empty() ? text : fmt::format("{}; {}", refusal_, text);
}

}  // namespace gabbro::gpu::hip
