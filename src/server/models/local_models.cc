#include "src/server/models/local_models.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "src/base/error.h"
#include "src/engine/conversion.h"
#include "src/engine/model_text.h"
#include "src/engine/worker/worker_model.h"
#include "src/formats/checkpoint.h"
#include "src/hub/model_cache.h"
#include "src/models/config/config_reader.h"

namespace gabbro::server {
namespace {

constexpr size_t kLongestModelName = 256;

int64_t modified_time(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<int64_t>(status.st_mtime) : 0;
}

uint64_t size_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::filesystem::file_size(path, error);
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(path, error)) {
    std::error_code unreadable;
    if (file.is_regular_file(unreadable)) bytes += file.file_size(unreadable);
  }
  return bytes;
}

// "models/llama.gguf" as "llama".
std::string id_of(const std::string& argument) {
  const std::filesystem::path path(argument);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return argument;
  const std::string name = path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
  return name.ends_with(".gguf") ? name.substr(0, name.size() - 5) : name;
}

// Names of the list, of the Hub and of Ollama: never a path.
bool is_model_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestModelName && name.front() != '/' && name.front() != '.' &&
         name.front() != '~' && name.find("..") == name.npos && name.find('\\') == name.npos &&
         std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

// The tags that most weights have.
std::string quantization_of(const Checkpoint& checkpoint) {
  std::map<std::string_view, int64_t> elements;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) elements[tensor.format] += tensor.elements();
  const auto most = std::ranges::max_element(elements, {}, [](const auto& one) { return one.second; });
  return most == elements.end() ? "" : std::string(most->first);
}

}  // namespace

LocalModels::LocalModels(LocalModelOptions options, const std::vector<std::string>& named)
    : options_(std::move(options)) {
  for (const std::string& argument : named) {
    const std::string path = resolve_model(argument), id = id_of(argument);
    if (arguments_.contains(id)) throw bad_input("two of the models have the name {}", id);
    arguments_[id] = argument;
    named_.push_back(with_facts({.id = id, .path = path, .bytes = size_of(path)}));
  }
}

ModelEntry LocalModels::with_facts(ModelEntry entry) {
  entry.modified = modified_time(entry.path);
  const std::lock_guard lock(mutex_);
  const auto known = facts_.find(entry.path);
  if (known == facts_.end() || known->second.modified != entry.modified) {
    Facts facts{.modified = entry.modified, .is_encoder = false, .architecture = "", .quantization = ""};
    try {
      const Checkpoint checkpoint = Checkpoint::open(entry.path);
      facts.is_encoder = is_encoder(checkpoint);
      facts.architecture = llm::architecture_of(checkpoint);
      facts.quantization = quantization_of(checkpoint);
    } catch (const Error&) {
      // Loading says what is wrong with it.
    }
    facts_[entry.path] = std::move(facts);
  }
  const Facts& facts = facts_.at(entry.path);
  entry.is_encoder = facts.is_encoder;
  entry.architecture = facts.architecture;
  entry.quantization = facts.quantization;
  return entry;
}

std::vector<ModelEntry> LocalModels::list() {
  std::vector<ModelEntry> entries = named_;
  for (const CachedModel& model : list_models()) {
    const bool is_known = std::ranges::any_of(
        entries, [&](const ModelEntry& other) { return other.id == model.name || other.path == model.path; });
    if (is_known || !model.problem.empty()) continue;
    entries.push_back(with_facts({.id = model.name, .path = model.path, .bytes = model.bytes}));
  }
  return entries;
}

std::optional<ModelEntry> LocalModels::find(const std::string& name) {
  const auto given = std::ranges::find(named_, name, &ModelEntry::id);
  if (given != named_.end()) return *given;
  if (!is_model_name(name)) return std::nullopt;
  for (const CachedModel& model : list_models()) {
    if (model.problem.empty() && model.name == name)
      return with_facts({.id = name, .path = model.path, .bytes = model.bytes});
  }
  try {
    const std::optional<std::string> path = find_model(name);
    if (!path) return std::nullopt;
    // Another spelling is the same model.
    const std::vector<ModelEntry> entries = list();
    const auto same = std::ranges::find(entries, *path, &ModelEntry::path);
    return same != entries.end() ? *same : with_facts({.id = name, .path = *path, .bytes = size_of(*path)});
  } catch (const Error&) {
    // It could be several: not this name.
  }
  return std::nullopt;
}

LoadedModel LocalModels::load_generator(const std::string& path, LoadOptions options) {
  EngineSpec spec{.path = path,
                  .options = std::move(options),
                  .cache_folder = options_.cache_folder,
                  .cache_bytes = options_.cache_bytes,
                  .deterministic = options_.deterministic};
  LoadedModel loaded;
  if (!options_.worker_command.empty() && worker::is_worker_wanted(spec.options)) {
    loaded.generator =
        std::make_shared<worker::WorkerModel>(spec, worker::WorkerOptions{.command = options_.worker_command,
                                                                          .most_restarts = options_.worker_restarts,
                                                                          .on_notice = options_.on_notice});
  } else {
    loaded.generator = LocalModel::load(spec);
  }
  const ModelFacts& facts = loaded.generator->facts();
  loaded.bytes = facts.weight_bytes + facts.cache_bytes;
  return loaded;
}

LoadedModel LocalModels::load(const ModelEntry& entry) {
  if (entry.is_encoder) {
    LoadedModel loaded;
    LoadOptions options = options_.load;
    options.kv_type.reset();
    loaded.encoder = TextEncoder::load(entry.path, options);
    std::string missing;
    loaded.tokenizer = read_tokenizer_if_any(Checkpoint::open(entry.path), missing);
    loaded.bytes = loaded.encoder->facts().file_bytes;
    return loaded;
  }
  const auto argument = arguments_.find(entry.id);
  std::shared_ptr<const hub::OllamaLayers> layers;
  LoadOptions options = options_.load;
  layers = resolve_with_layers(argument != arguments_.end() ? argument->second : entry.id).layers;
  if (layers != nullptr) {
    for (const std::string& path : layers->adapters) options.adapters.push_back({.path = path});
    if (layers->chat_template && options.chat_template == nullptr) {
      try {
        options.chat_template =
            std::make_shared<const text::ChatTemplate>(text::ChatTemplate::from_go(*layers->chat_template));
      } catch (const Error& error) {
        if (options_.on_notice)
          options_.on_notice(fmt::format("{}: its TEMPLATE is not followed: {}", entry.id, error.what()));
      }
    }
  }
  LoadedModel loaded = load_generator(entry.path, std::move(options));
  loaded.layers = std::move(layers);
  return loaded;
}

}  // namespace gabbro::server
