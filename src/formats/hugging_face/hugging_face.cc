// Models as the Hugging Face Hub has them: safetensors files, with or without an index, and JSON files next to them.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "src/base/error.h"
#include "src/base/file_identity.h"
#include "src/base/quote.h"
#include "src/formats/checkpoint_state.h"
#include "src/formats/foreign_folder.h"
#include "src/formats/gguf/gguf.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/json_file.h"
#include "src/formats/hugging_face/json_metadata.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/formats/hugging_face/tokenizer_files.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kPipelinePart = "pipeline_part";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

bool file_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string or_dot(const fs::path& folder) { return folder.empty() ? "." : folder.string(); }

// The names of the files that hold the tensors, from an index: {"weight_map": {tensor: file}}.
std::set<std::string> files_of_index(const fs::path& path) {
  const Json index = read_json_file(path.string());
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    throw bad_input("{}: has no weight_map", path.string());
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string())
      throw bad_input("{}: weight_map: {} is not the name of a file", path.string(), quote(tensor));
    const auto& name = file.get_ref<const std::string&>();
    if (name.empty() || name.find('/') != name.npos || name == "." || name == ".." || name.find('\0') != name.npos)
      throw bad_input("{}: weight_map: {} is not a file of the folder", path.string(), quote(name));
    files.insert(name);
  }
  if (files.empty()) throw bad_input("{}: weight_map names no file", path.string());
  return files;
}

// The safetensors files of a folder: the files of its index, model.safetensors, or all.
std::set<std::string> files_of_folder(const fs::path& folder) {
  std::set<std::string> indices, files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(kIndexSuffix)) indices.insert(name);
    if (name.ends_with(".safetensors")) files.insert(name);
  }
  if (error) throw bad_input("{}: {}", folder.string(), error.message());
  const std::string usual = "model" + std::string(kIndexSuffix);
  if (indices.contains(usual)) return files_of_index(folder / usual);
  if (files.contains("model.safetensors")) return {"model.safetensors"};
  if (indices.size() == 1) return files_of_index(folder / *indices.begin());
  refuse_adapter_folder(folder.string());
  if (files.empty()) {
    throw Error(ErrorCode::kBadInput, folder.string() + ": the folder holds no safetensors files",
                folder_hint(folder.string()));
  }
  return files;
}

// Throws if one of the files of the model `path` is missing.
void require_part(const fs::path& folder, const std::string& name, const std::string& path) {
  const std::string file_path = (folder / name).string();
  if (file_exists(file_path)) return;
  const auto unfinished = find_unfinished(folder.string(), name);
  throw Error(ErrorCode::kBadInput, fmt::format("{}: is missing (a part of {})", file_path, path),
              unfinished ? fmt::format("its download is unfinished: {}; fetch the rest", *unfinished)
                         : "all parts of a model have to be in one folder");
}

Json read_json_object(const std::string& path) {
  Json document = read_json_file(path);
  if (!document.is_object()) throw bad_input("{}: is not an object", path);
  return document;
}

// The names of the files with weights, for a folder, an index, or one of the files.
std::set<std::string> weight_files(const std::string& path, bool is_folder) {
  if (is_folder) return files_of_folder(path);
  return path.ends_with(kIndexSuffix) ? files_of_index(path) : std::set{fs::path(path).filename().string()};
}

// The weights of a pipeline's part, under the names of the folder, as convert writes them. Returns none if there is no
// such file.
std::optional<gguf::File> part_in_gguf(const fs::path& folder) {
  const fs::path path = folder / "model.gguf";
  if (!file_exists(path)) return std::nullopt;
  gguf::File file = gguf::File::open(path.string());
  if (file.string_or("general.type", "") != kPipelinePart) return std::nullopt;
  return file;
}

}  // namespace

std::shared_ptr<const Checkpoint::State> Checkpoint::State::of_hugging_face(const std::string& path) {
  struct FolderState final : State {
    const Metadata& metadata() const override { return fields; }
    ChatTemplates chat_templates() const override { return read_chat_templates(folder.string()); }
    TokenizerFiles tokenizer_files() const override { return read_tokenizer_files(folder.string()); }
    fs::path folder;
    std::vector<std::unique_ptr<const safetensors::File>> files;
    std::optional<gguf::File> gguf;
    std::vector<Json> documents;
    JsonMetadata fields;
  };
  auto state = std::make_shared<FolderState>();
  state->path = path;
  state->layout = CheckpointLayout::kHuggingFace;
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  state->folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  if (fs::path(path).filename() == "adapter_model.safetensors") refuse_adapter_folder(or_dot(state->folder));
  state->gguf = is_folder ? part_in_gguf(path) : std::nullopt;
  const std::set<std::string> names = state->gguf ? std::set<std::string>() : weight_files(path, is_folder);
  for (const std::string& name : names) {
    const std::string file_path = (state->folder / name).string();
    if (names.size() > 1) require_part(state->folder, name, path);
    state->file_identities.push_back(file_identity(file_path));  // before it is opened
    const auto& file = state->files.emplace_back(std::make_unique<const safetensors::File>(file_path));
    state->mapped.push_back(file->mapped());
    state->file_bytes += file->mapped()->bytes().size();
    state->file_paths.push_back(file_path);
    for (const safetensors::TensorInfo& info : file->tensors()) {
      state->add_tensor({.name = info.name,
                         .format = info.dtype_name,
                         .known_dtype = info.known_dtype(),
                         .shape = info.shape,
                         .data = info.data,
                         .file = file->mapped()});
    }
  }
  if (state->gguf) state->add_file(*state->gguf);
  state->file_count = state->file_paths.size();
  state->documents.reserve(3);  // fields are views
  for (const auto& [name, prefix] : {std::pair("config.json", ""), {"generation_config.json", "generation_config."}}) {
    if (!file_exists(state->folder / name)) continue;
    const Json& document = state->documents.emplace_back(read_json_object((state->folder / name).string()));
    if (prefix == std::string_view()) state->config = &document;
    state->fields.add(document, prefix);
  }
  // The configuration of GPTQ models from before 2024 is in another file.
  if (const char* name = "quantize_config.json"; file_exists(state->folder / name)) {
    state->fields.add(state->documents.emplace_back(read_json_object((state->folder / name).string())),
                      "quantization_config.");
  }
  state->fields.finish(path);
  const published::Source source(state->tensors, state->fields, [&](std::string_view name) {
    const auto found = state->index.find(name);
    return found != state->index.end() ? &state->tensors[found->second] : nullptr;
  });
  state->replace_tensors(published::find_matrices(source));
  return state;
}

Checkpoint Checkpoint::of_config(const std::string& name, std::string_view config_json,
                                 std::span<const std::pair<std::string, std::vector<int64_t>>> tensors) {
  struct ConfigState final : State {
    const Metadata& metadata() const override { return fields; }
    ChatTemplates chat_templates() const override { return {}; }
    Json config;
    JsonMetadata fields;
  };
  auto state = std::make_shared<ConfigState>();
  state->path = name;
  state->layout = CheckpointLayout::kHuggingFace;
  state->config = parse_json(config_json, name);
  if (!state->config.is_object()) throw bad_input("{}: is not an object", name);
  state->fields.add(state->config, "");
  state->fields.finish(name);
  for (const auto& [tensor, shape] : tensors) {
    const std::string_view stored = state->names.emplace_back(tensor);
    state->add_tensor(
        {.name = stored, .format = "F32", .known_dtype = DType::f32, .shape = shape, .data = {}, .file = {}});
  }
  return Checkpoint(std::shared_ptr<const State>(std::move(state)));
}

}  // namespace gabbro
