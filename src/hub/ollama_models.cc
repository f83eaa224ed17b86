// Ollama's folder: manifests/HOST/NAMESPACE/MODEL/TAG, JSON that names blobs/sha256-HASH.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/hub/model_folders.h"
#include "src/hub/ollama_layers.h"
#include "src/hub/settings.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHost = "registry.ollama.ai", kLibrary = "library", kLatest = "latest";

// "registry.ollama.ai/library/qwen3/8b" as "qwen3:8b"; empty where it is not of four parts.
std::string model_name(std::string_view manifest) {
  if (std::ranges::count(manifest, '/') != 3) return "";
  const auto strip = [&](std::string_view part) {
    if (manifest.starts_with(fmt::format("{}/", part))) manifest.remove_prefix(part.size() + 1);
  };
  strip(kHost);
  strip(kLibrary);
  const size_t slash = manifest.rfind('/');
  return fmt::format("{}:{}", manifest.substr(0, slash), manifest.substr(slash + 1));
}

// The four parts of a name, as Ollama reads it: [[HOST/]NAMESPACE/]MODEL[:TAG].
struct OllamaName {
  std::string host, space, model, tag;  // the tag is empty where it is not given

  bool is_same(const OllamaName& other, bool exact) const {
    const auto same = [&](const std::string& a, const std::string& b) {
      return exact ? a == b : lower_case(a) == lower_case(b);
    };
    return same(host, other.host) && same(space, other.space) && same(model, other.model);
  }
};

OllamaName parse_name(std::string_view text) {
  if (const size_t scheme = text.find("://"); scheme != std::string_view::npos) text.remove_prefix(scheme + 3);
  OllamaName name{std::string(kHost), std::string(kLibrary), "", ""};
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && text.find('/', colon) == std::string_view::npos) {
    name.tag = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  const size_t last = text.rfind('/');
  name.model = text.substr(last == std::string_view::npos ? 0 : last + 1);
  if (last == std::string_view::npos) return name;
  text = text.substr(0, last);
  const size_t first = text.rfind('/');
  name.space = text.substr(first == std::string_view::npos ? 0 : first + 1);
  if (first != std::string_view::npos) name.host = text.substr(0, first);
  if (lower_case(name.host) == "huggingface.co") name.host = "hf.co";
  return name;
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
      if (!name.empty() && entry->is_regular_file(ignored)) visit(OllamaEntry{name, folder, entry->path().string()});
    }
  }
}

// The blob of the model of a manifest; nothing where it is not there. A file that is not a manifest is nothing: this is
// another program's folder.
std::optional<std::string> model_of(const OllamaEntry& entry) {
  try {
    const OllamaManifest manifest = read_ollama_manifest(entry.manifest);
    const OllamaLayer* model = manifest.model();
    if (model != nullptr && ollama_blob_problem(entry.folder, *model).empty()) return ollama_blob(entry.folder, *model);
  } catch (const Error&) {
  }
  return {};
}

// Whether an entry is the model of that name, in any case. A model of the Hub needs no tag if it has one quantization.
bool is_wanted(const OllamaName& wanted, const OllamaName& there) {
  const bool any_tag = wanted.tag.empty() && wanted.host == "hf.co";
  const std::string tag = wanted.tag.empty() ? std::string(kLatest) : wanted.tag;
  return wanted.is_same(there, false) && (any_tag || lower_case(there.tag) == lower_case(tag));
}

// Empty: nothing is wrong.
std::string problem_of(const OllamaEntry& entry) {
  try {
    const OllamaManifest manifest = read_ollama_manifest(entry.manifest);
    if (const OllamaLayer* const model = manifest.model()) return ollama_blob_problem(entry.folder, *model);
    std::string kinds;
    for (const OllamaLayer& layer : manifest.layers) {
      if (kinds.find(layer.kind) == std::string::npos) kinds += (kinds.empty() ? "" : ", ") + layer.kind;
    }
    return fmt::format("no GGUF file is among its layers ({})", kinds.empty() ? "none" : quote(kinds));
  } catch (const Error& error) {
    return error.what();
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
  for_each_manifest([&](const OllamaEntry& entry) {
    CachedModel listed{.name = entry.name, .source = ModelSource::kOllama};
    try {
      const OllamaManifest manifest = read_ollama_manifest(entry.manifest);
      const OllamaLayer* model = manifest.model();
      if (model == nullptr) return;
      listed.path = ollama_blob(entry.folder, *model);
      for (const OllamaLayer& layer : manifest.layers) {
        if (layer.kind != "model" && layer.kind != "adapter") continue;
        if (listed.problem.empty()) listed.problem = ollama_blob_problem(entry.folder, layer);
        listed.bytes += layer.size;
      }
    } catch (const Error&) {  // not a manifest
      return;
    }
    models.push_back(std::move(listed));
  });
  std::stable_sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return models;
}

std::optional<OllamaModel> find_ollama_model(const std::string& name) {
  const OllamaName wanted = parse_name(name);
  std::vector<OllamaModel> exact, others;
  for_each_manifest([&](const OllamaEntry& entry) {
    const OllamaName there = parse_name(entry.name);
    const std::string tag = wanted.tag.empty() ? std::string(kLatest) : wanted.tag;
    if (!is_wanted(wanted, there)) return;
    const auto path = model_of(entry);
    if (!path) return;
    const bool is_exact = wanted.is_same(there, true) && there.tag == tag;
    const auto is_it = [&](const OllamaModel& model) { return model.entry.name == entry.name; };
    std::vector<OllamaModel>& list = is_exact ? exact : others;
    if (std::ranges::none_of(list, is_it)) list.push_back({*path, entry});  // the first folder's counts
  });
  const std::vector<OllamaModel>& found = exact.empty() ? others : exact;
  if (found.size() > 1)
    throw bad_input("model {} could be {} or {}: write it in full", quote(name), found[0].entry.name,
                    found[1].entry.name);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

void refuse_broken_ollama_model(const std::string& name) {
  const OllamaName wanted = parse_name(name);
  for_each_manifest([&](const OllamaEntry& entry) {
    if (!is_wanted(wanted, parse_name(entry.name))) return;
    if (const std::string problem = problem_of(entry); !problem.empty())
      throw Error(ErrorCode::kBadInput, fmt::format("{}: Ollama's model is broken: {}", entry.name, problem),
                  "ollama pull " + entry.name);
  });
}

}  // namespace gabbro::hub
