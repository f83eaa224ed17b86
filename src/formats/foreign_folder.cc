#include "src/formats/foreign_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/foreign_file.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/json_file.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdapterConfig = "adapter_config.json";

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// Weights of other programs.
bool is_foreign_checkpoint(std::string_view name) {
  return ends_with_any(name, {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".npz", ".tflite", ".ot"});
}

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string shown(std::vector<std::string> names) {
  constexpr size_t kShown = 10;
  const std::string more = names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "";
  names.resize(std::min(names.size(), kShown));
  return fmt::format("{}{}", fmt::join(names, ", "), more);
}

// "someone/base"; empty where the file does not say it.
std::string base_model_of(const fs::path& config) {
  try {
    const auto document = read_json_file(config.string());
    if (!document.is_object() || !document.contains("base_model_name_or_path")) return "";
    const auto& name = document["base_model_name_or_path"];
    if (!name.is_string()) return "";
    const std::string quoted = quote(name.get<std::string>());  // without control characters
    return quoted.substr(1, quoted.size() - 2);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::string folder_hint(const std::string& folder) {
  std::vector<std::string> gguf, foreign, unfinished;
  bool safetensors = false, diffusers = false;
  for (const std::string& name : names_in(folder)) {
    if (in_lower_case(name).ends_with(".gguf")) gguf.push_back(name);
    if (is_foreign_checkpoint(name)) foreign.push_back(name);
    if (is_unfinished_name(name)) unfinished.push_back(name);
    safetensors = safetensors || name.ends_with(".safetensors");
    diffusers = diffusers || name == "model_index.json";
  }
  if (!gguf.empty()) return "name one of the GGUF files in it: " + shown(std::move(gguf));
  if (diffusers) return "it is a picture model of diffusers: gabbro image draws with it";
  if (safetensors) return "its config.json is missing: download that too";
  const fs::path snapshots = fs::path(folder) / "snapshots";
  std::vector<std::string> commits = names_in(snapshots.string());
  std::error_code ignored;
  std::erase_if(commits, [&](const std::string& name) { return !fs::is_directory(snapshots / name, ignored); });
  if (!commits.empty())
    return fmt::format("it is a folder of the Hub's cache: name a snapshot in it, {}",
                       (snapshots / commits[0]).string());
  // A snapshot of the Hub's cache has links to the files of another folder.
  if (const auto blob = find_unfinished((fs::path(folder) / ".." / ".." / "blobs").string()))
    unfinished.push_back(*blob);
  if (!unfinished.empty()) return "the download is unfinished: " + shown(std::move(unfinished)) + "; fetch the rest";
  if (!foreign.empty()) {
    return "checkpoints of other programs are not read (" + shown(std::move(foreign)) +
           "): look for a version of the model in safetensors or GGUF";
  }
  return "there is neither a .gguf nor a .safetensors file in it: name the file or the folder of a model";
}

void refuse_adapter_folder(const std::string& folder) {
  const fs::path config = fs::path(folder) / kAdapterConfig;
  std::error_code ignored;
  if (!fs::is_regular_file(config, ignored)) return;
  const bool has_config = fs::exists(fs::path(folder) / "config.json", ignored);
  for (const std::string& name : names_in(folder)) {
    const bool weights = name.ends_with(".gguf") || (has_config && name.ends_with(".safetensors"));
    if (weights && !name.starts_with("adapter_model")) return;  // a model is there too
  }
  const std::string base = base_model_of(config);
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: is a LoRA adapter{}, not a model", folder, base.empty() ? "" : " of " + base),
              fmt::format("name that model, and the adapter by --lora {}", folder));
}

std::optional<std::string> find_unfinished(const std::string& folder, const std::string& name) {
  for (const std::string& found : names_in(folder)) {
    if (is_unfinished_name(found) && found.starts_with(name)) return found;
  }
  return {};
}

}  // namespace gabbro
