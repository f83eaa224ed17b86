#include "src/models/llm/convert_fields.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <map>

namespace gabbro::llm {
namespace {

// Defaults of generation by their names in generation_config.json and in GGUF.
constexpr std::pair<const char*, const char*> kSampling[] = {
    {"generation_config.temperature", "general.sampling.temp"},
    {"generation_config.top_p", "general.sampling.top_p"},
    {"generation_config.min_p", "general.sampling.min_p"},
    {"generation_config.repetition_penalty", "general.sampling.penalty_repeat"},
};

}  // namespace

std::string recipe_of(const Checkpoint& checkpoint, const ConvertOptions& options, const std::string& header) {
  std::map<std::string, std::pair<int64_t, int64_t>> files;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    struct stat info = {};
    const std::string& path = tensor.file->path();
    if (!files.contains(path) && ::stat(path.c_str(), &info) == 0)
      files[path] = {info.st_size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
  }
  std::string recipe = fmt::format("gabbro 1 {} {:x}", options.type->name, std::hash<std::string>()(header));
  if (options.importance != nullptr) recipe += fmt::format(" imatrix {:x}", options.importance->digest());
  recipe += describe_values(options.adapters);
  for (const auto& [path, facts] : files)
    recipe += fmt::format(" {}:{}:{}", std::filesystem::path(path).filename().string(), facts.first, facts.second);
  std::ranges::replace(recipe, '\n', ' ');
  return recipe;
}

void copy_fields(const Metadata& metadata, gguf::Writer& writer) {
  for (const MetadataField& field : metadata.fields()) {
    const bool replaced = field.key.starts_with("quantize.imatrix.") || field.key == "general.file_type" ||
                          field.key == "general.quantization_version" || field.key == "general.alignment" ||
                          field.key.starts_with("split.");
    if (!replaced) writer.add_value(field.key, *field.value.gguf());
  }
}

void note_mixtures(const ModelPlan& plan, GgufFields& fields) {
  fields.mixed_layers.assign(static_cast<size_t>(plan.sizes.layers), false);
  for (const RequestedTensor& tensor : plan.tensors) {
    int layer = 0;
    if (std::sscanf(tensor.name.c_str(), "blk.%d.", &layer) != 1 || layer >= plan.sizes.layers) continue;
    if (tensor.name.ends_with(".ffn_gate_inp.weight")) fields.mixed_layers[static_cast<size_t>(layer)] = true;
    if (tensor.name.ends_with(".ffn_down_shexp.weight")) fields.has_shared_expert = true;
  }
}

// The default template, and by their names the others, as llama.cpp's converter writes them.
void write_chat_templates(const ChatTemplates& templates, gguf::Writer& writer) {
  const bool only = templates.sources.size() == 1;
  std::map<std::string, std::string> named;
  for (const auto& [name, source] : templates.sources) {
    std::string key = only ? "default" : name;
    for (char& c : key) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    if (!key.empty()) named[key] = source;
  }
  std::vector<std::string_view> names;
  for (const auto& [name, source] : named) {
    if (name != "default") names.push_back(name);
    writer.add_string(name == "default" ? "tokenizer.chat_template" : "tokenizer.chat_template." + name, source);
  }
  if (!names.empty()) writer.add_strings("tokenizer.chat_templates", names);
}

void write_fields(const Checkpoint& checkpoint, const Convertible& model, GgufFields& fields) {
  gguf::Writer& writer = fields.writer;
  const Metadata& metadata = checkpoint.metadata();
  writer.add_string("general.architecture", fields.architecture);
  writer.add_string("general.type", "model");
  std::filesystem::path path(checkpoint.path());
  if (!std::filesystem::is_directory(path)) path = path.parent_path();
  writer.add_string("general.name", std::filesystem::weakly_canonical(path).filename().string());
  model.write_fields(fields);
  for (const auto& [theirs, ours] : kSampling) {
    if (metadata.has(theirs)) writer.add_f32(ours, metadata.require_f32(theirs));
  }
  constexpr const char* kTopK = "generation_config.top_k";
  if (metadata.has(kTopK))
    writer.add_integer("general.sampling.top_k", gguf::ValueType::i32, metadata.require_u32(kTopK));
  write_chat_templates(checkpoint.chat_templates(), writer);
}

void write_importance_fields(const ConvertOptions& options, gguf::Writer& writer) {
  if (options.importance == nullptr) return;
  const ImportanceMatrix& matrix = *options.importance;
  writer.add_string("quantize.imatrix.file", std::filesystem::path(options.importance_path).filename().string());
  if (!matrix.datasets.empty()) writer.add_string("quantize.imatrix.dataset", matrix.datasets.front());
  writer.add_u32("quantize.imatrix.entries_count", static_cast<uint32_t>(matrix.entries.size()));
  writer.add_u32("quantize.imatrix.chunks_count", matrix.chunks);
}

}  // namespace gabbro::llm
