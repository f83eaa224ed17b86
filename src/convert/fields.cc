#include "src/convert/fields.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <map>

#include "src/models/config/generation_fields.h"

namespace gabbro::llm {

void copy_fields(const Metadata& metadata, gguf::Writer& writer) {
  for (const MetadataField& field : metadata.fields()) {
    const bool replaced = field.key.starts_with("quantize.imatrix.") || field.key == "general.file_type" ||
                          field.key == "general.quantization_version" || field.key == "general.alignment" ||
                          field.key.starts_with("split.");
    if (!replaced) writer.add_value(field.key, *field.value.gguf());
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

std::vector<std::string> write_fields(const Checkpoint& checkpoint, const Convertible& model, GgufFields& fields) {
  gguf::Writer& writer = fields.writer;
  writer.add_string("general.architecture", fields.architecture);
  writer.add_string("general.type", "model");
  std::filesystem::path path(checkpoint.path());
  if (!std::filesystem::is_directory(path)) path = path.parent_path();
  writer.add_string("general.name", std::filesystem::weakly_canonical(path).filename().string());
  model.write_fields(fields);
  GenerationDefaults defaults = read_generation_defaults(checkpoint.metadata());
  for (const auto& [option, name, value] : defaults.values) {
    if (option->gguf == nullptr) {
      defaults.warnings.push_back(fmt::format(
          "{}: generation_config.json: GGUF has no place for {}: not part of the new file", checkpoint.path(), name));
      continue;
    }
    const std::string field = "general.sampling." + std::string(option->gguf);
    if (option->is_integer()) {
      writer.add_integer(field, gguf::ValueType::i32, static_cast<int64_t>(value));
    } else {
      writer.add_f32(field, static_cast<float>(value));
    }
  }
  write_chat_templates(checkpoint.chat_templates(), writer);
  return defaults.warnings;
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
