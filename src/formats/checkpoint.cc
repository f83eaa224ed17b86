#include "src/formats/checkpoint.h"

#include <fmt/ranges.h>

#include <cstring>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/file_identity.h"
#include "src/base/quote.h"
#include "src/formats/checkpoint_state.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quantized_folders/derived_data.h"

namespace gabbro {
namespace {

// Bytes of `elements` of a row; nothing if they are not whole blocks.
std::optional<size_t> row_bytes(DType dtype, int64_t elements) {
  if (elements % dtype_info(dtype).block_elements != 0) return {};
  return dtype_bytes(dtype, static_cast<size_t>(elements));
}

void require_matrix(const CheckpointTensor& tensor) {
  if (tensor.shape.size() != 2)
    throw bad_input("{}: tensor {} is not a matrix", tensor.file->path(), quote(tensor.name));
}

[[noreturn]] void refuse_range(const CheckpointTensor& tensor, const char* what, int64_t first, int64_t count) {
  throw bad_input("{}: tensor {} of shape ({}, {}) has no {} {} to {}", tensor.file->path(), quote(tensor.name),
                  tensor.shape[0], tensor.shape[1], what, first, first + count);
}

bool holds(int64_t length, int64_t first, int64_t count) {
  return first >= 0 && count > 0 && first <= length && count <= length - first;
}

}  // namespace

int64_t CheckpointTensor::elements() const {
  int64_t count = 1;
  for (const int64_t dimension : shape) count *= dimension;  // the readers have seen that it fits
  return count;
}

uint64_t CheckpointTensor::offset() const { return static_cast<uint64_t>(data.data() - file->bytes().data()); }

void CheckpointTensor::prepare() const {
  if (derived) derived->prepare();
}

void CheckpointTensor::release() const {
  if (derived) return derived->release();
  file->release(offset(), data.size());
}

DType CheckpointTensor::dtype() const {
  if (known_dtype) return *known_dtype;
  throw bad_input("{}: tensor {}: format {} is not supported", file->path(), quote(name), format);
}

CheckpointTensor CheckpointTensor::rows(int64_t first, int64_t count) const {
  require_matrix(*this);
  if (!holds(shape[0], first, count)) refuse_range(*this, "rows", first, count);
  const size_t row = data.size() / static_cast<size_t>(shape[0]);
  CheckpointTensor part = *this;
  part.shape[0] = count;
  part.data = data.subspan(row * static_cast<size_t>(first), row * static_cast<size_t>(count));
  return part;
}

std::vector<std::byte> CheckpointTensor::columns(int64_t first, int64_t count) const {
  require_matrix(*this);
  const auto before = row_bytes(dtype(), first), width = row_bytes(dtype(), count);
  if (!holds(shape[1], first, count) || !before || !width) refuse_range(*this, "columns", first, count);
  const size_t row = data.size() / static_cast<size_t>(shape[0]);
  std::vector<std::byte> out(*width * static_cast<size_t>(shape[0]));
  for (size_t i = 0; i < static_cast<size_t>(shape[0]); ++i)
    std::memcpy(out.data() + i * *width, data.data() + i * row + *before, *width);
  return out;
}

void Checkpoint::State::add_tensor(CheckpointTensor tensor) {
  const auto [entry, is_new] = index.emplace(tensor.name, tensors.size());
  if (!is_new) {
    throw bad_input("{}: tensor {} is in {} too", tensor.file->path(), quote(tensor.name),
                    tensors[entry->second].file->path());
  }
  tensors.push_back(std::move(tensor));
}

// ComfyUI-GGUF's field: the shape of a tensor that is stored as a matrix, so that its rows are whole blocks.
std::vector<int64_t> shape_of(const gguf::File& file, const gguf::TensorInfo& info) {
  const std::string key = "comfy.gguf.orig_shape." + std::string(info.name);
  if (!file.has(key)) return info.shape;
  int64_t elements = 1;
  std::vector<int64_t> shape;
  for (const int32_t length : file.i32s(key)) {
    elements = length < 1 || elements > info.elements() ? -1 : elements * length;
    shape.push_back(length);
  }
  if (elements != info.elements()) {
    throw bad_input("{}: {}: the shape ({}) is not that of {} values", file.path(), key, fmt::join(shape, ", "),
                    info.elements());
  }
  return shape;
}

void Checkpoint::State::add_file(const gguf::File& file) {
  for (const auto& part : file.parts()) {
    mapped.push_back(part);
    file_bytes += part->bytes().size();
    file_paths.push_back(part->path());
    file_identities.push_back(file_identity(part->path()));
  }
  for (const gguf::TensorInfo& info : file.tensors()) {
    const gguf::GgmlType* type = gguf::find_ggml_type(info.ggml_type);
    add_tensor({.name = info.name,
                .format = info.type_name,
                .known_dtype = type != nullptr ? type->dtype : std::nullopt,
                .shape = shape_of(file, info),
                .data = info.data,
                .file = info.file});
  }
}

std::shared_ptr<const Checkpoint::State> Checkpoint::State::of_gguf(gguf::File opened) {
  struct GgufState final : State {
    explicit GgufState(gguf::File f) : file(std::move(f)) {}
    const Metadata& metadata() const override { return file; }
    ChatTemplates chat_templates() const override {
      constexpr std::string_view kKey = "tokenizer.chat_template";
      ChatTemplates found;
      for (const MetadataField& field : file.fields()) {
        if (!field.key.starts_with(kKey)) continue;
        const std::string_view name = field.key.substr(kKey.size());
        const bool is_named = name.size() > 1 && name.front() == '.';
        if (!name.empty() && !is_named) continue;
        found.sources.emplace_back(is_named ? name.substr(1) : "default", file.require_string(field.key));
      }
      return found;
    }
    gguf::File file;
  };
  auto state = std::make_shared<GgufState>(std::move(opened));
  const gguf::File& file = state->file;
  state->path = file.path();
  state->gguf_version = file.version();
  state->file_count = file.parts().size();
  state->add_file(file);
  std::vector<published::Matrix> read_in_f32;
  published::add_f64(state->tensors, read_in_f32);
  state->replace_tensors(std::move(read_in_f32));
  return state;
}

Checkpoint::Checkpoint(gguf::File file) : state_(State::of_gguf(std::move(file))) {}

Checkpoint Checkpoint::open(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored) && fs::exists(fs::path(path) / "config.json", ignored);
  if (folder || path.ends_with(".safetensors") || path.ends_with(".safetensors.index.json"))
    return Checkpoint(State::of_hugging_face(path));
  return gguf::File::open(path);
}

const std::string& Checkpoint::path() const { return state_->path; }
CheckpointLayout Checkpoint::layout() const { return state_->layout; }
uint32_t Checkpoint::gguf_version() const { return state_->gguf_version; }
size_t Checkpoint::file_count() const { return state_->file_count; }
const std::vector<std::string>& Checkpoint::file_paths() const { return state_->file_paths; }
const std::vector<std::string>& Checkpoint::file_identities() const { return state_->file_identities; }
uint64_t Checkpoint::file_bytes() const { return state_->file_bytes; }
std::span<const std::shared_ptr<const MappedFile>> Checkpoint::files() const { return state_->mapped; }
const Metadata& Checkpoint::metadata() const { return state_->metadata(); }
const nlohmann::ordered_json* Checkpoint::config() const { return state_->config; }
const std::vector<std::string>& Checkpoint::notes() const { return state_->notes; }
std::span<const CheckpointTensor> Checkpoint::tensors() const { return state_->tensors; }
ChatTemplates Checkpoint::chat_templates() const { return state_->chat_templates(); }
std::optional<std::string> Checkpoint::chat_template(bool with_tools) const {
  return chat_templates().choose(with_tools, path());
}
TokenizerFiles Checkpoint::tokenizer_files() const { return state_->tokenizer_files(); }

void Checkpoint::require_unchanged() const {
  for (const auto& file : state_->mapped) file->require_unchanged();
}

std::string Checkpoint::description() const {
  const bool gguf = layout() == CheckpointLayout::kGguf;
  const std::string text = gguf ? fmt::format("GGUF v{}", gguf_version()) : "safetensors";
  return file_count() == 1 ? text : fmt::format("{} in {} {}", text, file_count(), gguf ? "parts" : "files");
}

const CheckpointTensor* Checkpoint::tensor(std::string_view name) const {
  const auto found = state_->index.find(name);
  return found == state_->index.end() ? nullptr : &state_->tensors[found->second];
}

const CheckpointTensor& Checkpoint::require_tensor(std::string_view name) const {
  if (const CheckpointTensor* found = tensor(name)) return *found;
  throw bad_input("{}: tensor {} is missing", path(), quote(name));
}

}  // namespace gabbro
