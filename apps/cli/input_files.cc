#include "apps/cli/input_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/base/link_target.h"
#include "src/formats/gguf/gguf_split.h"
#include "src/hub/model_cache.h"
#include "src/hub/ollama_layers.h"
#include "src/models/weights/adapter.h"

namespace gabbro::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResults[] = {".npy", ".html", ".gguf", ".partial", ".parts"};  // what commands write
constexpr int kMostDepth = 3;  // of folders: models have theirs in one, such as 1_Pooling
constexpr const char* kWrittenMeanwhile[] = {".partial", ".partial.parts"};  // by ResumableFile

std::optional<struct stat> regular_file(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  return info;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_result(const fs::path& path) {
  return std::ranges::find(kResults, path.extension().string()) != std::end(kResults);
}

// FILE of FILE[:SCALE].
std::string adapter_path(const std::string& text) {
  try {
    return llm::parse_adapter(text).first;
  } catch (const Error&) {
    return text;
  }
}

std::string or_dot(const fs::path& folder) { return folder.empty() ? "." : folder.string(); }

}  // namespace

void InputFiles::add(const std::string& path, const std::string& what) {
  if (is_folder(path)) return add_folder(path, what);
  if (const auto info = regular_file(path)) entries_.push_back({info->st_dev, info->st_ino, path, what});
}

// Results in a folder are not read again, and may be replaced.
void InputFiles::add_folder(const std::string& folder, const std::string& what) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry.depth() == kMostDepth) entry.disable_recursion_pending();
    if (entry->is_regular_file(ignored) && !is_result(entry->path())) add(entry->path().string(), what);
  }
}

void InputFiles::add_model(const std::string& name) {
  std::string path;
  try {
    const ResolvedModel model = resolve_with_layers(name);
    path = model.path;
    if (model.layers != nullptr) {
      for (const std::string& adapter : model.layers->adapters) add(adapter, "an adapter of the model");
    }
  } catch (const Error&) {
    if (is_folder(name)) return;
    path = name;
  }
  add(path, "the model");
  if (is_folder(path)) return;
  if (const auto split = gguf::parse_split_name(path)) {
    for (uint32_t part = 0; part < split->count; ++part) add(split->path(part), "a part of the model");
  }
  if (path.ends_with(".safetensors") || path.ends_with(".json"))
    add_folder(or_dot(fs::path(path).parent_path()), "a file of the model");
}

const InputFiles::Entry* InputFiles::find(dev_t device, ino_t number) const {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& e) { return e.device == device && e.number == number; });
  return found != entries_.end() ? &*found : nullptr;
}

void InputFiles::refuse_output(const std::string& path) const {
  const auto refuse = [&](const std::string& written) {
    const auto info = regular_file(written);
    const Entry* const entry = info ? find(info->st_dev, info->st_ino) : nullptr;
    if (entry == nullptr) return;
    const std::string other = entry->path != written ? fmt::format(" ({})", entry->path) : "";
    throw Error(ErrorCode::kBadInput, fmt::format("{}: is {} that is read{}", written, entry->what, other),
                "inputs are not overwritten: name another file");
  };
  refuse(path);
  const std::string target = link_target(path);
  for (const char* const ending : kWrittenMeanwhile) refuse(target + ending);
}

void InputFiles::refuse_folder(const std::string& folder) const {
  std::error_code ignored;
  if (!is_folder(folder)) return;
  const std::string inside = fs::canonical(folder, ignored).string() + "/";
  for (const Entry& entry : entries_) {
    if (!fs::canonical(entry.path, ignored).string().starts_with(inside)) continue;
    throw Error(ErrorCode::kBadInput, fmt::format("{}: holds {} that is read ({})", folder, entry.what, entry.path),
                "inputs are not overwritten: name another folder");
  }
}

void InputFiles::refuse_standard_output() const {
  struct stat info = {};
  if (::fstat(STDOUT_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return;
  if (const Entry* const entry = find(info.st_dev, info.st_ino)) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: is {} that is read, and standard output", entry->path, entry->what),
                "inputs are not overwritten: write to another file");
  }
}

InputFiles inputs_of(const CommandSpec& command) {
  InputFiles inputs;
  for (const auto& option : command.options) {
    const std::string what = "the file of " + option->name();
    for (const std::string& value : option->given) {
      if (option->file == FileUse::kModel) inputs.add_model(value);
      if (option->file == FileUse::kInput) inputs.add(value, what);
      if (option->file == FileUse::kAdapter) inputs.add(adapter_path(value), what);
    }
  }
  return inputs;
}

void check_outputs(const CommandSpec& command) {
  struct stat output = {};
  const bool to_file = ::fstat(STDOUT_FILENO, &output) == 0 && S_ISREG(output.st_mode);
  const bool writes = std::ranges::any_of(command.options, [](const auto& option) {
    return option->file == FileUse::kOutput || option->file == FileUse::kFolder || option->file == FileUse::kStream;
  });
  if (!to_file && !writes && std::getenv("GABBRO_STREAM_TIMES") == nullptr) return;
  InputFiles inputs = inputs_of(command);
  inputs.refuse_standard_output();
  inputs.add("/dev/stdin", "standard input");
  for (const auto& option : command.options) {
    const bool folder = option->file == FileUse::kFolder, stream = option->file == FileUse::kStream;
    if (option->file != FileUse::kOutput && !folder && !stream) continue;
    std::vector<std::string> paths = option->given;
    if (paths.empty() && !option->facts.default_value.empty()) paths = {option->facts.default_value};
    for (const std::string& path : paths) {
      if (is_standard_output(path) && !stream) {
        throw Error(ErrorCode::kBadInput, fmt::format("{}: '{}' is standard output", option->name(), path),
                    fmt::format("it writes {}", folder ? "files: name a folder" : "a file: name it"));
      }
      if (!folder && !is_standard_output(path)) inputs.refuse_output(path);
    }
  }
  if (const char* const times = std::getenv("GABBRO_STREAM_TIMES")) inputs.refuse_output(times);
}

}  // namespace gabbro::cli
