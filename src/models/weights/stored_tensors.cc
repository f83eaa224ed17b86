// Tensors as they are stored: their names in both layouts, and rows of matrices that are stored together.
#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include <fmt/ranges.h>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quant/quant.h"
#include "src/models/weights/weights.h"

namespace gabbro::llm {

namespace {

void multiply_row(DType dtype, std::byte* row, int64_t count, float factor) {
  std::vector<float> values(static_cast<size_t>(count));
  dequantize_row(dtype, row, values.data(), count);
  for (float& value : values) value *= factor;
  quantize_row(dtype, values.data(), row, count);
}

}  // namespace

TransformersLayout with_factor(float factor, TransformersLayout layout) {
  if (factor != 1) layout.factor = [factor](int64_t) { return factor; };
  return layout;
}

void copy_row(const CheckpointTensor& tensor, int64_t rows, const TransformersLayout& theirs, int64_t row,
              std::byte* out) {
  const std::byte* const data = tensor.data.data();
  const size_t count = static_cast<size_t>(rows), bytes = tensor.data.size() / count;
  const auto at = static_cast<size_t>((theirs.row ? theirs.row(row) : row) + theirs.skipped_rows);
  if (theirs.transposed || theirs.column) {  // of floats
    const size_t element = dtype_info(tensor.dtype()).block_bytes;
    for (size_t j = 0; j < bytes / element; ++j) {
      const size_t column = theirs.column ? static_cast<size_t>(theirs.column(static_cast<int64_t>(j))) : j;
      const size_t there =
          theirs.transposed ? column * count + static_cast<size_t>(row) : at * (bytes / element) + column;
      std::memcpy(out + j * element, data + there * element, element);
    }
  } else {
    std::memcpy(out, data + at * bytes, bytes);
  }
  if (theirs.factor) {
    const auto columns = static_cast<int64_t>(bytes / dtype_info(tensor.dtype()).block_bytes);
    multiply_row(tensor.dtype(), out, columns, theirs.factor(row));
  }
}

TransformersLayout paired_rows(int64_t head_dimension, int64_t rotated) {
  return {.row = [=](int64_t row) {
    const int64_t head = row / head_dimension, i = row % head_dimension;
    if (i >= rotated) return row;
    return head * head_dimension + i / 2 + (i % 2) * (rotated / 2);
  }};
}

namespace {

// The number in `module` where `pattern` has "{}"; "" where the pattern has none; nothing where they differ.
std::optional<std::string_view> match(std::string_view pattern, std::string_view module) {
  const size_t hole = pattern.find("{}");
  if (hole == pattern.npos) return module == pattern ? std::optional<std::string_view>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, hole), after = pattern.substr(hole + 2);
  if (!module.starts_with(before) || !module.ends_with(after) || module.size() <= pattern.size() - 2) return {};
  const std::string_view number = module.substr(hole, module.size() - before.size() - after.size());
  return number.find_first_not_of("0123456789") == number.npos ? std::optional(number) : std::nullopt;
}

// The attribute of a model with a head that holds the encoder.
constexpr const char* kEncoderPrefixes[] = {"bert.", "roberta.", "distilbert.", "mpnet.", "nomic_bert.", "model."};

// The attributes of a model with a head that hold the model without one.
constexpr std::string_view kBasePrefixes[] = {"model.", "transformer.", "gpt_neox.", "backbone."};
// Below which wrapped models have all of their tensors: those of torch.compile and of parallel training, and those that
// see or hear.
constexpr const char* kWrappers[] = {"_orig_mod.",  "module.",           "base_model.model.", "language_model.model.",
                                     "text_model.", "model.text_model.", "thinker.model.",    "language_model."};

// A model that was saved without its head has no prefix, and one inside of another model or wrapper one more.
void add_other_prefixes(const std::string& theirs, std::vector<std::string>& found) {
  const auto base =
      std::ranges::find_if(kBasePrefixes, [&](std::string_view prefix) { return theirs.starts_with(prefix); });
  const std::string bare = base != std::end(kBasePrefixes) ? theirs.substr(base->size()) : theirs;
  if (bare.size() < theirs.size()) found.push_back(bare);
  for (const char* wrapper : kWrappers) {
    found.push_back(wrapper + theirs);
    if (bare.size() < theirs.size()) found.push_back(wrapper + bare);
  }
}

}  // namespace

// Models that also see or hear have their language model below another name, and encoders with a head below that of
// their family. Early BERT files have gamma and beta.
std::vector<std::string> transformers_names(std::span<const WeightName> names, const std::string& name) {
  const size_t suffix = name.rfind('.');  // ".weight" or ".bias"
  std::vector<std::string> found;
  for (const WeightName& known : names) {
    auto number = match(known.gguf, std::string_view(name).substr(0, suffix));
    if (!number && known.whole) number = match(known.gguf, name);
    if (!number) continue;
    const std::string theirs =
        fmt::format(fmt::runtime(known.hugging_face), *number) + (known.whole ? "" : name.substr(suffix));
    found.push_back(theirs);
    constexpr std::string_view kModel = "model.";
    found.push_back("language_model." + theirs);
    if (theirs.starts_with(kModel)) found.push_back("model.language_model." + theirs.substr(kModel.size()));
    add_other_prefixes(theirs, found);
    if (theirs.starts_with(kModel) || known.whole) continue;
    for (const char* prefix : kEncoderPrefixes) found.push_back(prefix + theirs);
    constexpr std::string_view kNorm = "LayerNorm";
    const std::string module = theirs.substr(0, theirs.rfind('.'));
    if (!module.ends_with(kNorm)) continue;
    const char* const early = name.ends_with(".weight") ? ".gamma" : ".beta";
    found.push_back(module + early);
    found.push_back("bert." + module + early);
  }
  return found;
}

namespace {

// The name of the tensor of one expert; of other tensors the name itself.
std::string of_expert(std::string name, int64_t expert) {
  if (const size_t star = name.find('*'); star != name.npos) name.replace(star, 1, std::to_string(expert));
  return name;
}

// The first that is there.
const std::string* find_name(const std::vector<std::string>& candidates, const Checkpoint& checkpoint) {
  const auto found = std::ranges::find_if(
      candidates, [&](const std::string& candidate) { return checkpoint.tensor(of_expert(candidate, 0)) != nullptr; });
  return found != candidates.end() ? &*found : nullptr;
}

}  // namespace

std::string weight_name(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name) {
  if (checkpoint.layout() == CheckpointLayout::kGguf) return name;
  const std::vector<std::string> theirs = transformers_names(names, name);
  if (theirs.empty()) throw std::logic_error("no name in transformers' layout for " + name);
  const std::string* const found = find_name(theirs, checkpoint);
  return of_expert(found != nullptr ? *found : theirs.front(), 0);
}

bool has_weight(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name) {
  if (checkpoint.layout() == CheckpointLayout::kGguf) return checkpoint.tensor(name) != nullptr;
  return find_name(transformers_names(names, name), checkpoint) != nullptr;
}

std::vector<const CheckpointTensor*> stacked_tensors(std::span<const WeightName> names, const Checkpoint& checkpoint,
                                                     const std::string& name, int64_t rows, int64_t columns) {
  const std::vector<std::string> candidates = transformers_names(names, name);
  if (candidates.empty()) throw std::logic_error("no name in transformers' layout for " + name);
  const std::string* const found = find_name(candidates, checkpoint);
  std::vector<const CheckpointTensor*> tensors;
  for (int64_t i = 0; i < rows; ++i) {
    const CheckpointTensor& row = checkpoint.require_tensor(of_expert(found != nullptr ? *found : candidates[0], i));
    if (row.shape != std::vector{columns}) {
      throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint.path(),
                      quote(row.name), fmt::join(row.shape, ", "), columns);
    }
    tensors.push_back(&row);
  }
  return tensors;
}

ExpertTensors::ExpertTensors(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name,
                             const ExpertsSize& size)
    : size_(size), stored_rows_(size.rows) {
  const bool gguf = checkpoint.layout() == CheckpointLayout::kGguf;
  const std::vector<std::string> candidates = gguf ? std::vector{name} : transformers_names(names, name);
  if (candidates.empty()) throw std::logic_error("no name in transformers' layout for " + name);
  const std::string* const found = find_name(candidates, checkpoint);
  const std::string& pattern = found != nullptr ? *found : candidates.front();
  const bool apart = pattern.find('*') != pattern.npos;
  for (int64_t e = 0; e < (apart ? size.experts : 1); ++e)
    tensors_.push_back(&checkpoint.require_tensor(of_expert(pattern, e)));
  gathered_ = !apart && !gguf && size.transposed && !is_quantized(first().dtype());  // whose blocks are along rows
  std::vector<int64_t> shape = {size.rows, size.columns};
  if (!apart) shape.insert(shape.begin(), size.experts);
  if (gathered_) std::swap(shape[1], shape[2]);
  const bool together = !apart && !gguf;
  if (together && first().shape.size() == 2) {  // Nomic's experts are one matrix of all rows
    shape = {shape[0] * shape[1], shape[2]};
  } else if (together && first().shape.size() == 3 && first().shape[gathered_ ? 2 : 1] == 2 * size.rows) {
    shape[gathered_ ? 2 : 1] = stored_rows_ = 2 * size.rows;
  }
  for (const CheckpointTensor* tensor : tensors_) {
    if (tensor->shape != shape) {
      throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint.path(),
                      quote(tensor->name), fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
    }
    if (tensor->dtype() != first().dtype()) {
      throw bad_input("{}: tensor {} has format {}, that of the first expert {}", checkpoint.path(),
                      quote(tensor->name), tensor->format, first().format);
    }
  }
  const auto rows = static_cast<size_t>(apart ? stored_rows_ : size.experts * stored_rows_);
  row_bytes_ = first().data.size() / rows;
}

std::vector<std::shared_ptr<const MappedFile>> ExpertTensors::files() const {
  std::vector<std::shared_ptr<const MappedFile>> files;
  for (const CheckpointTensor* tensor : tensors_) {
    if (std::ranges::find(files, tensor->file) == files.end()) files.push_back(tensor->file);
  }
  return files;
}

namespace {

// Row `row` of an expert's matrix among the rows of it that are stored together.
int64_t row_there(const ExpertsSize& size, int64_t stored_rows, int64_t row) {
  if (stored_rows == size.rows) return row;
  return size.interleaved ? 2 * row + size.part : size.part * size.rows + row;
}

}  // namespace

void ExpertTensors::copy_row(int64_t row, std::byte* out) const {
  if (!gathered_) {
    std::memcpy(out, this->row(row), row_bytes_);
    return;
  }
  const int64_t expert = row / size_.rows, column = row_there(size_, stored_rows_, row % size_.rows);
  const size_t element = dtype_info(first().dtype()).block_bytes;
  const std::byte* from = first().data.data() + static_cast<size_t>(expert) * size_.columns * stored_rows_ * element;
  for (int64_t j = 0; j < size_.columns; ++j)
    std::memcpy(out + j * element, from + (j * stored_rows_ + column) * element, element);
}

const std::byte* ExpertTensors::row(int64_t row) const {
  const int64_t expert = row / size_.rows, there = row_there(size_, stored_rows_, row % size_.rows);
  if (tensors_.size() > 1)
    return tensors_[static_cast<size_t>(expert)]->data.data() + static_cast<size_t>(there) * row_bytes_;
  return first().data.data() + static_cast<size_t>(expert * stored_rows_ + there) * row_bytes_;
}

HeadTensors::HeadTensors(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name,
                         const HeadMatrices& size)
    : size_(size),
      tensor_(&checkpoint.require_tensor(weight_name(names, checkpoint, name))),
      whole_(tensor_->shape == size.shape()) {
  if (whole_ || tensor_->shape == size.stored_shape()) return;
  throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint.path(),
                  quote(tensor_->name), fmt::join(tensor_->shape, ", "), fmt::join(size.stored_shape(), ", "));
}

DType HeadTensors::dtype() const {
  const DType dtype = tensor_->dtype();
  return size_.transposed && !whole_ && is_quantized(dtype) ? DType::f16 : dtype;
}

const std::byte* HeadTensors::stored_row(int64_t head, int64_t row) const {
  const size_t bytes = tensor_->data.size() / static_cast<size_t>(size_.heads * size_.stored);
  return tensor_->data.data() + static_cast<size_t>(head * size_.stored + size_.first + row) * bytes;
}

const std::byte* HeadTensors::row(int64_t row) const {
  if (!whole_) return stored_row(row / size_.rows, row % size_.rows);
  return tensor_->data.data() + static_cast<size_t>(row) * dtype_bytes(dtype(), static_cast<size_t>(size_.columns));
}

void HeadTensors::copy_row(int64_t row, std::byte* out) const {
  const int64_t head = row / size_.rows, within = row % size_.rows;
  const size_t bytes = dtype_bytes(dtype(), static_cast<size_t>(size_.columns));
  if (has_rows()) {
    std::memcpy(out, this->row(row), bytes);
  } else if (is_quantized(tensor_->dtype())) {
    std::vector<std::byte> all(bytes * static_cast<size_t>(size_.rows));
    copy_head(head, all.data());
    std::memcpy(out, all.data() + static_cast<size_t>(within) * bytes, bytes);
  } else {
    const size_t element = dtype_info(dtype()).block_bytes;
    for (int64_t j = 0; j < size_.columns; ++j)
      std::memcpy(out + j * element, stored_row(head, j) + within * element, element);
  }
}

void HeadTensors::copy_head(int64_t head, std::byte* out) const {
  const size_t bytes = dtype_bytes(dtype(), static_cast<size_t>(size_.columns));
  if (whole_ || !size_.transposed || !is_quantized(tensor_->dtype())) {
    for (int64_t i = 0; i < size_.rows; ++i) copy_row(head * size_.rows + i, out + static_cast<size_t>(i) * bytes);
    return;
  }
  std::vector<float> row(static_cast<size_t>(size_.rows)), values(static_cast<size_t>(size_.rows * size_.columns));
  for (int64_t j = 0; j < size_.columns; ++j) {
    dequantize_row(tensor_->dtype(), stored_row(head, j), row.data(), size_.rows);
    for (int64_t i = 0; i < size_.rows; ++i)
      values[static_cast<size_t>(i * size_.columns + j)] = row[static_cast<size_t>(i)];
  }
  quantize_row(dtype(), values.data(), out, std::ssize(values));
}

std::vector<ModelMatrix> model_matrices(std::span<const WeightName> names, const Checkpoint& checkpoint,
                                        const RequestedTensor& requested) {
  const auto of_heads = [&](const HeadMatrices& size) {
    const HeadTensors heads(names, checkpoint, requested.name, size);
    return ModelMatrix{heads.dtype(), size.heads * size.rows, size.columns};
  };
  if (requested.heads.heads > 0) return {of_heads(requested.heads)};
  if (!requested.taken_out.empty()) {
    std::vector<ModelMatrix> matrices;
    for (const HeadMatrices& size : requested.taken_out) matrices.push_back(of_heads(size));
    return matrices;
  }
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < requested.shape.size(); ++i) rows *= requested.shape[i];
  const CheckpointTensor& stored = checkpoint.require_tensor(weight_name(names, checkpoint, requested.name));
  return {{requested.in_f32 ? DType::f32 : stored.dtype(), rows, requested.shape.back()}};
}

bool has_stored_rows(std::span<const WeightName> names, const Checkpoint& checkpoint,
                     const RequestedTensor& requested) {
  if (requested.in_f32 || !requested.taken_out.empty()) return false;
  if (requested.experts.experts > 0)
    return ExpertTensors(names, checkpoint, requested.name, requested.experts).has_rows();
  if (requested.heads.heads > 0) return HeadTensors(names, checkpoint, requested.name, requested.heads).has_rows();
  const TransformersLayout& theirs = requested.theirs;
  return checkpoint.layout() == CheckpointLayout::kGguf || (!theirs.transposed && !theirs.column && !theirs.factor);
}

std::vector<float> float_values(const CheckpointTensor& tensor, int64_t count, const TransformersLayout& theirs) {
  const auto elements = static_cast<size_t>(tensor.elements());
  std::vector<float> stored(elements);
  const std::vector<std::byte> aligned(tensor.data.begin(), tensor.data.end());
  dequantize_row(tensor.dtype(), aligned.data(), stored.data(), std::ssize(stored));
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t there = theirs.element ? theirs.element(i) : theirs.row ? theirs.row(i) : i;
    const float value = stored[static_cast<size_t>(there)] + theirs.offset;
    values[static_cast<size_t>(i)] = theirs.value != nullptr ? theirs.value(value) : value;
  }
  return values;
}

}  // namespace gabbro::llm
