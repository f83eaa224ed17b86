#include "src/hub/ollama_layers.h"

#include <fmt/format.h>

#include <filesystem>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/json_file.h"

namespace gabbro::hub {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kLargestManifest = size_t{1} << 20;
constexpr size_t kLargestText = size_t{16} << 20;

// The blobs of one manifest, with errors that begin with its name.
struct Blobs {
  const OllamaEntry& entry;

  std::string path(const OllamaLayer& layer) const {
    if (const std::string problem = ollama_blob_problem(entry.folder, layer); !problem.empty())
      throw Error(ErrorCode::kBadInput, fmt::format("{}: the layer {}: {}", entry.name, layer.kind, problem),
                  "ollama pull " + entry.name);
    return ollama_blob(entry.folder, layer);
  }
  std::string text(const OllamaLayer& layer) const { return read_file(path(layer), kLargestText); }
  Json json(const OllamaLayer& layer) const {
    return parse_json(text(layer), fmt::format("{}: the layer {}", entry.name, layer.kind));
  }
  [[noreturn]] void refuse(const OllamaLayer& layer, const char* expected) const {
    throw bad_input("{}: the layer {} is not {}", entry.name, layer.kind, expected);
  }
};

void read_messages(const Blobs& blobs, const OllamaLayer& layer, OllamaLayers& layers) {
  const Json document = blobs.json(layer);
  if (!document.is_array()) blobs.refuse(layer, "a list of messages");
  for (const Json& message : document) {
    const auto field = [&](const char* name) {
      const auto found = message.is_object() ? message.find(name) : message.end();
      if (!message.is_object() || found == message.end() || !found->is_string())
        blobs.refuse(layer, "a list of messages with role and content");
      return found->get<std::string>();
    };
    layers.messages.emplace_back(field("role"), field("content"));
    if (const auto images = message.find("images"); images != message.end() && !images->empty())
      layers.notes.emplace_back("a MESSAGE has a picture, which is left out");
  }
}

// Ollama's programs, in place of a template, for prompts and answers of some families.
void note_renderer(const Blobs& blobs, const OllamaLayer& config, OllamaLayers& layers) {
  if (config.size > kLargestManifest || !ollama_blob_problem(blobs.entry.folder, config).empty()) return;
  const Json document = blobs.json(config);
  const auto found = document.is_object() ? document.find("renderer") : document.end();
  if (!document.is_object() || found == document.end() || !found->is_string() || found->empty()) return;
  const auto& renderer = found->get_ref<const std::string&>();
  if (renderer.empty()) return;
  layers.chat_template.reset();
  layers.notes.push_back(fmt::format(
      "Ollama's renderer {} is not followed: the chat template of the model's file is used", quote(renderer)));
}

void read_layer(const Blobs& blobs, const OllamaLayer& layer, OllamaLayers& layers) {
  const std::string& kind = layer.kind;
  if (kind == "model" || kind == "embed") return;  // Ollama ignores embeddings, too
  if (kind == "adapter") {
    layers.adapters.push_back(blobs.path(layer));
    return;
  }
  if (const std::string problem = ollama_blob_problem(blobs.entry.folder, layer); !problem.empty()) {
    layers.notes.push_back(fmt::format("the layer {} is left out: {}", quote(kind), problem));
  } else if (kind == "template" || kind == "prompt") {
    layers.chat_template = blobs.text(layer);
  } else if (kind == "system") {
    layers.system = blobs.text(layer);
  } else if (kind == "params") {
    layers.parameters = blobs.json(layer);
    if (layers.parameters.is_null()) layers.parameters = Json::object();
    if (!layers.parameters.is_object()) blobs.refuse(layer, "an object");
  } else if (kind == "messages") {
    layers.messages.clear();
    read_messages(blobs, layer, layers);
  } else if (kind == "license") {
    layers.licenses.push_back(blobs.text(layer));
  } else {
    layers.notes.push_back(fmt::format("the layer {} is not followed", quote(kind)));
  }
}

}  // namespace

std::string ollama_blob(const std::string& folder, const OllamaLayer& layer) {
  return fmt::format("{}/blobs/sha256-{}", folder, layer.sha256);
}

std::string ollama_blob_problem(const std::string& folder, const OllamaLayer& layer) {
  const std::string path = ollama_blob(folder, layer);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return path + " is missing";
  const uint64_t size = fs::file_size(path, error);
  if (error) return fmt::format("{}: {}", path, error.message());
  return size == layer.size ? "" : fmt::format("{} has {} bytes, not {}", path, size, layer.size);
}

OllamaManifest read_ollama_manifest(const std::string& path) {
  return parse_ollama_manifest(read_file(path, kLargestManifest), path);
}

OllamaLayers read_ollama_layers(const OllamaEntry& entry) {
  const Blobs blobs{entry};
  const OllamaManifest manifest = read_ollama_manifest(entry.manifest);
  OllamaLayers layers{.name = entry.name};
  for (const OllamaLayer& layer : manifest.layers) read_layer(blobs, layer, layers);
  if (manifest.config) note_renderer(blobs, *manifest.config, layers);
  return layers;
}

}  // namespace gabbro::hub
