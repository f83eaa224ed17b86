#include "backends/gpu/hip/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>

#include "backends/gpu/api.h"
#include "backends/gpu/hip/code_archive.h"
#include "backends/gpu/hip/code_target.h"
#include "backends/gpu/hip/elf_target.h"
#include "backends/gpu/hip/kernel_compiler.h"
#include "backends/gpu/hip/product_trial.h"
#include "backends/gpu/hip/product_words.h"
#include "backends/gpu/hip/runtime.h"

namespace gabbro::gpu::hip {
namespace {

struct TaskFailure : std::runtime_error {
  TaskFailure(std::string_view line_key, const std::string& what) : std::runtime_error(what), key(line_key) {}
  std::string_view key;
};

[[noreturn]] void fail(const std::string& what) { throw TaskFailure(kErrorKey, what); }

int report_failure(std::string_view key, const char* what) {
  std::printf("%s\n", fmt::format("{}{}", key, what).c_str());
  std::fflush(stdout);
  return 1;
}

void write_file(const char* path, std::span<const char> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) fail(fmt::format("{} cannot be written", path));
}

std::vector<char> compile_source(std::string_view name, const char* architecture) {
  const auto source = std::ranges::find_if(kernel_sources(), [&](const EmbeddedFile& own) { return own.name == name; });
  if (source == kernel_sources().end()) fail(fmt::format("the plugin has no source {}", name));
  return compile_kernels(*source, architecture);
}

std::vector<char> compile_text(const char* name, const char* architecture, const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) fail(fmt::format("{} cannot be read", path));
  return compile_kernels({name, text.c_str(), text.size()}, architecture);
}

// A line for each target. Throws if an image is damaged or is not an ELF file of its target.
void list_images() {
  const CodeArchive archive(code_images().empty() ? std::string_view() : code_images().front().text());
  for (const std::string_view target : archive.targets()) {
    size_t count = 0, bytes = 0;
    for (const std::string_view source : archive.sources(target)) {
      const std::vector<char> code = *archive.unpack(target, source);
      if (elf_target({code.data(), code.size()}) != target)
        fail(fmt::format("the image of {} for {} is code for something else", source, target));
      ++count;
      bytes += code.size();
    }
    std::printf("%s\n", fmt::format("{}: {} sources, {} bytes", target, count, bytes).c_str());
  }
}

void try_library(std::span<const char* const> words) {
  const auto shape = shape_of_words(words.subspan(2));
  const auto library = make_product_library(words[1]);
  if (library == nullptr || !shape) fail("these are not the words of a product");
  const int device = std::atoi(words[0]);
  runtime().check(runtime().hipSetDevice_(device), "selecting the device");
  std::string problem = library->find(target_of(runtime().properties(device).gcnArchName));
  if (problem.empty() && !library->start()) problem = "it does not start on this device";
  if (!problem.empty()) fail(problem);
  try {
    problem = try_product(*library, *shape);
  } catch (const NoMemoryForTrial& error) {
    throw TaskFailure(kUnknownKey, error.what());
  } catch (const ApiError& error) {
    throw TaskFailure(kFaultKey, error.what());
  }
  if (!problem.empty()) fail(problem);
}

void run_task(std::span<const char* const> words) {
  const std::string_view task = words.empty() ? "" : words[0];
  if (task == "compile" && words.size() == 4) {
    write_file(words[3], compile_source(words[1], words[2]));
  } else if (task == "compile" && words.size() == 5) {
    write_file(words[3], compile_text(words[1], words[2], words[4]));
  } else if (task == "products" && words.size() > 3) {
    try_library(words.subspan(1));
  } else if (task == "images" && words.size() == 1) {
    list_images();
  } else {
    fail(fmt::format("the plugin has no task '{}' with {} words", task, words.size()));
  }
}

}  // namespace
}  // namespace gabbro::gpu::hip

// Called by gabbro_probe. The exit code.
extern "C" __attribute__((visibility("default"))) int gabbro_task(int count, const char* const* words) {
  using namespace gabbro::gpu::hip;
  try {
    run_task({words, static_cast<size_t>(count)});
    return 0;
  } catch (const TaskFailure& failure) {
    return report_failure(failure.key, failure.what());
  } catch (const std::exception& error) {
    return report_failure(kErrorKey, error.what());
  }
}
