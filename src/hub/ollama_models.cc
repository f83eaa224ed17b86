// Ollama's folder: manifests/HOST/NAMESPACE/MODEL/TAG, JSON that names blobs/sha256-HASH.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/hub/listing.h"
#include "src/hub/model_folders.h"
#include "src/hub/settings.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestManifest = size_t{1} << 20;
constexpr std::string_view kHost = "registry.ollama.ai/", kLibrary = "library/";

// "registry.ollama.ai/library/qwen3/8b" as "qwen3:8b"; empty where it is not of four parts.
std::string model_name(std::string_view manifest) {
  if (std::ranges::count(manifest, '/') != 3) return "";
  if (manifest.starts_with(kHost)) manifest.remove_prefix(kHost.size());
  if (manifest.starts_with(kLibrary)) manifest.remove_prefix(kLibrary.size());
  const size_t slash = manifest.rfind('/');
  return fmt::format("{}:{}", manifest.substr(0, slash), manifest.substr(slash + 1));
}

// The blob of a manifest, where it is there. What is no manifest is nothing: this is another program's folder.
std::optional<std::string> blob_of(const std::string& folder, const std::string& manifest) {
  try {
    const auto model = parse_ollama_manifest(read_file(manifest, kLargestManifest), manifest);
    const std::string blob = fmt::format("{}/blobs/sha256-{}", folder, model ? model->sha256 : "");
    std::error_code ignored;
    if (model && fs::is_regular_file(blob, ignored) && fs::file_size(blob, ignored) == model->size) return blob;
  } catch (const Error&) {
  }
  return {};
}

template <class Visit>
void for_each_manifest(const Visit& visit) {
  for (const std::string& folder : ollama_folders()) {
    const fs::path manifests = folder + "/manifests";
    std::error_code error;
    for (fs::recursive_directory_iterator entry(manifests, fs::directory_options::skip_permission_denied, error), end;
         !error && entry != end; entry.increment(error)) {
      std::error_code ignored;
      const std::string name = model_name(entry->path().lexically_relative(manifests).string());
      if (!name.empty() && entry->is_regular_file(ignored)) visit(folder, entry->path().string(), name);
    }
  }
}

}  // namespace

std::vector<std::string> ollama_folders() {
  if (const std::string folder = variable("OLLAMA_MODELS"); !folder.empty()) return {folder};
  std::vector<std::string> folders;
  if (const std::string home = variable("HOME"); !home.empty()) folders.push_back(home + "/.ollama/models");
  folders.emplace_back("/usr/share/ollama/.ollama/models");  // of the service that its installer makes
  return folders;
}

std::vector<CachedModel> ollama_models() {
  std::vector<CachedModel> models;
  for_each_manifest([&](const std::string& folder, const std::string& manifest, const std::string& name) {
    const auto blob = blob_of(folder, manifest);
    std::error_code ignored;
    if (blob) models.push_back({name, *blob, fs::file_size(*blob, ignored), ModelSource::kOllama});
  });
  std::stable_sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return models;
}

std::optional<std::string> find_ollama_model(const std::string& name) {
  const std::string wanted = lower_case(name.find(':') == std::string::npos ? name + ":latest" : name);
  std::optional<std::string> path;
  for_each_manifest([&](const std::string& folder, const std::string& manifest, const std::string& other) {
    if (!path && lower_case(other) == wanted) path = blob_of(folder, manifest);
  });
  return path;
}

}  // namespace gabbro::hub
