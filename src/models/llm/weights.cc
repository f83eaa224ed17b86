#include "src/models/llm/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "src/base/error.h"
#include "src/formats/gguf_parse.h"
#include "src/formats/published/derived_data.h"
#include "src/formats/quant/finite.h"
#include "src/formats/quant/quant.h"
#include "src/models/llm/load_formats.h"

namespace gabbro::llm {
namespace {

// A copy of the tensor's bytes in the layout of GGUF.
std::shared_ptr<std::vector<std::byte>> in_our_layout(const CheckpointTensor& tensor, int64_t rows,
                                                      const TransformersLayout& theirs) {
  const size_t row = tensor.data.size() / static_cast<size_t>(rows);
  auto copy = std::make_shared<std::vector<std::byte>>(tensor.data.size());
  for (int64_t i = 0; i < rows; ++i) copy_row(tensor, rows, theirs, i, copy->data() + static_cast<size_t>(i) * row);
  return copy;
}

bool is_aligned(std::span<const std::byte> data, DType dtype) {
  constexpr size_t kOfBlocks = 8;  // as GGUF files have them
  const size_t alignment = is_quantized(dtype) ? kOfBlocks : dtype_info(dtype).block_bytes;
  return reinterpret_cast<uintptr_t>(data.data()) % alignment == 0;
}

}  // namespace

void copy_row(const CheckpointTensor& tensor, int64_t rows, const TransformersLayout& theirs, int64_t row,
              std::byte* out) {
  const std::byte* const data = tensor.data.data();
  const size_t count = static_cast<size_t>(rows), bytes = tensor.data.size() / count;
  if (theirs.transposed) {
    const size_t element = dtype_info(tensor.dtype()).block_bytes, at = static_cast<size_t>(row);
    for (size_t j = 0; j < bytes / element; ++j)
      std::memcpy(out + j * element, data + (j * count + at) * element, element);
    return;
  }
  std::memcpy(out, data + static_cast<size_t>(theirs.row ? theirs.row(row) : row) * bytes, bytes);
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

// The names that a tensor may have in transformers' layout. Models that also see or hear have their language model
// below another name, and encoders with a head below that of their family. Early BERT files have gamma and beta.
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
  gathered_ = !apart && !gguf && size.transposed;
  std::vector<int64_t> shape = {size.rows, size.columns};
  if (!apart) shape.insert(shape.begin(), size.experts);
  if (gathered_) std::swap(shape[1], shape[2]);
  int64_t& rows_there = shape[gathered_ ? 2 : shape.size() - 2];
  if (!apart && !gguf && first().shape.size() == 3 && first().shape[gathered_ ? 2 : 1] == 2 * size.rows) {
    stored_rows_ = 2 * size.rows;
    rows_there = stored_rows_;
  }
  for (const CheckpointTensor* tensor : tensors_) {
    if (tensor->shape != shape) {
      throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint.path(),
                      gguf::quote(tensor->name), fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
    }
    if (tensor->dtype() != first().dtype()) {
      throw bad_input("{}: tensor {} has format {}, that of the first expert {}", checkpoint.path(),
                      gguf::quote(tensor->name), tensor->format, first().format);
    }
  }
  if (gathered_ && is_quantized(first().dtype())) {
    throw bad_input("{}: tensor {} is stored transposed, which {} cannot be", checkpoint.path(),
                    gguf::quote(first().name), first().format);
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
                  gguf::quote(tensor_->name), fmt::join(tensor_->shape, ", "), fmt::join(size.stored_shape(), ", "));
}

DType HeadTensors::dtype() const {
  const DType dtype = tensor_->dtype();
  return size_.transposed && !whole_ && is_quantized(dtype) ? DType::f16 : dtype;
}

const std::byte* HeadTensors::stored_row(int64_t head, int64_t row) const {
  const size_t bytes = tensor_->data.size() / static_cast<size_t>(size_.heads * size_.stored);
  return tensor_->data.data() + static_cast<size_t>(head * size_.stored + size_.first + row) * bytes;
}

void HeadTensors::copy_row(int64_t row, std::byte* out) const {
  const int64_t head = row / size_.rows, within = row % size_.rows;
  const size_t bytes = dtype_bytes(dtype(), static_cast<size_t>(size_.columns));
  if (whole_) {
    std::memcpy(out, tensor_->data.data() + static_cast<size_t>(row) * bytes, bytes);
  } else if (!size_.transposed) {
    std::memcpy(out, stored_row(head, within), bytes);
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

nn::Projection WeightSource::linear(const std::string& prefix, MatrixSize size, const TransformersLayout& theirs) {
  nn::Projection projection = this->projection(prefix + ".weight", size, theirs);
  if (!has(prefix + ".bias")) return projection;
  TransformersLayout of_bias = theirs;
  of_bias.transposed = false;
  const std::vector<float> bias = host_vector(prefix + ".bias", size.rows, of_bias);
  const size_t count = static_cast<size_t>(size.count > 0 ? size.count : size.rows);
  projection.bias = upload(std::span(bias).subspan(static_cast<size_t>(size.first), count));
  return projection;
}

CheckpointWeights::CheckpointWeights(const Checkpoint& checkpoint, std::span<const WeightName> names,
                                     std::shared_ptr<Device> device, const LoadModelOptions& options)
    : checkpoint_(checkpoint),
      names_(names),
      device_(std::move(device)),
      quantize_(planned_formats(checkpoint, options.quantize)),
      memory_(device_, options.streamed != nullptr ? options.streamed->resident_bytes()
                                                   : bytes_of_matrices(checkpoint, names, quantize_, *device_)),
      check_weights_(options.check_weights),
      progress_(options.progress),
      streamed_(options.streamed) {
  for (const CheckpointTensor& tensor : checkpoint.tensors()) total_ += stored_form(tensor).data.size();
}

bool CheckpointWeights::has(const std::string& name) const { return has_weight(names_, checkpoint_, name); }

namespace {

void require_weight_format(const CheckpointTensor& tensor, const Checkpoint& checkpoint) {
  const DType dtype = tensor.dtype();
  if (is_quantized(dtype) || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) return;
  throw bad_input("{}: tensor {}: weights in format {} are not supported", checkpoint.path(), gguf::quote(tensor.name),
                  tensor.format);
}

}  // namespace

const CheckpointTensor& CheckpointWeights::checked(const std::string& name, std::vector<int64_t> shape) const {
  const CheckpointTensor& tensor = checkpoint_.require_tensor(weight_name(names_, checkpoint_, name));
  if (tensor.shape != shape) {
    throw bad_input("{}: tensor {} has shape ({}), the model's sizes ask for ({})", checkpoint_.path(),
                    gguf::quote(tensor.name), fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
  }
  require_weight_format(tensor, checkpoint_);
  return tensor;
}

void CheckpointWeights::check_values(const CheckpointTensor& tensor) const {
  if (!check_weights_ || all_finite(tensor.dtype(), tensor.data.data(), tensor.elements())) return;
  throw bad_input("{}: tensor {} has values that are not numbers; the file is damaged", checkpoint_.path(),
                  gguf::quote(tensor.name));
}

void CheckpointWeights::loaded(const CheckpointTensor& tensor, size_t bytes, bool used_in_place) {
  if (!used_in_place) tensor.release();  // these pages need not stay in memory
  done_ += bytes;
  if (progress_) progress_(done_, total_);
}

// Streamed rows are read from the files.
void CheckpointWeights::require_streamable(const CheckpointTensor& tensor, const std::string& name) const {
  if (!tensor.derived && !new_format(quantize_, name, tensor.dtype())) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: tensor {}: weights that are quantized while loading, or are {}, cannot be streamed",
                          checkpoint_.path(), gguf::quote(tensor.name), tensor.format),
              "gabbro convert makes a GGUF file of them, which can");
}

Tensor CheckpointWeights::streamed_rows(const CheckpointTensor& whole, const std::string& name, MatrixSize size,
                                        const TransformersLayout& theirs) {
  const bool converted = checkpoint_.layout() == CheckpointLayout::kHuggingFace && theirs.row;
  const int64_t skipped = whole.shape[0] - size.rows;
  const size_t bytes = whole.data.size() / static_cast<size_t>(whole.shape[0]);
  const auto row = [=, first = size.first, data = whole.data.data(),
                    map = converted ? theirs.row : nullptr](int64_t i) {
    return data + static_cast<size_t>(skipped + (map ? map(first + i) : first + i)) * bytes;
  };
  return streamed_->add({.name = name,
                         .dtype = whole.dtype(),
                         .rows = size.count > 0 ? size.count : size.rows,
                         .columns = size.columns,
                         .row = row,
                         .files = {whole.file}});
}

// On the device; where others are streamed, its own memory even if the mapped file would do.
Tensor CheckpointWeights::uploaded(DType dtype, int64_t rows, int64_t columns,
                                   const std::shared_ptr<const void>& bytes) {
  if (streamed_ == nullptr || device_->matrix_bytes(dtype, rows, columns) > 0)
    return device_->upload_matrix(dtype, rows, columns, bytes, &memory_);
  const size_t size = dtype_bytes(dtype, static_cast<size_t>(rows * columns));
  const std::shared_ptr<void> own = memory_.take(size);
  device_->copy_to_device(own.get(), bytes.get(), size);
  return device_->tensor_in(own, dtype, Shape{rows, columns});
}

const CheckpointTensor& CheckpointWeights::checked_matrix(const std::string& name, MatrixSize size,
                                                          const TransformersLayout& theirs) const {
  const bool transposed = checkpoint_.layout() == CheckpointLayout::kHuggingFace && theirs.transposed;
  const int64_t skipped = checkpoint_.layout() == CheckpointLayout::kHuggingFace ? theirs.skipped_rows : 0;
  const CheckpointTensor& whole = checked(name, transposed ? std::vector<int64_t>{size.columns, size.rows}
                                                           : std::vector<int64_t>{size.rows + skipped, size.columns});
  if (transposed && is_quantized(whole.dtype()))
    throw bad_input("{}: tensor {} is stored transposed, which {} cannot be", checkpoint_.path(),
                    gguf::quote(whole.name), whole.format);
  return whole;
}

Tensor CheckpointWeights::matrix(const std::string& name, MatrixSize size, const TransformersLayout& theirs) {
  return upload_rows(checked_matrix(name, size, theirs), name, size, theirs);
}

nn::Projection CheckpointWeights::projection(const std::string& name, MatrixSize size,
                                             const TransformersLayout& theirs) {
  const CheckpointTensor& whole = checked_matrix(name, size, theirs);
  if (!whole.ordered) return {.weight = upload_rows(whole, name, size, theirs), .bias = {}, .order = {}};
  const std::vector<int32_t>& order = whole.ordered->order;
  Tensor& indices = orders_[order];
  if (!indices.defined()) indices = device_->upload(DType::i32, Shape{std::ssize(order)}, order.data());
  return {.weight = upload_rows(whole.ordered->matrix, name, size, theirs), .bias = {}, .order = indices};
}

Tensor CheckpointWeights::upload_rows(const CheckpointTensor& whole, const std::string& name, MatrixSize size,
                                      const TransformersLayout& theirs) {
  if (is_streamed(name)) {
    require_streamable(whole, name);
    return streamed_rows(whole, name, size, theirs);
  }
  whole.prepare();
  const int64_t skipped = checkpoint_.layout() == CheckpointLayout::kHuggingFace ? theirs.skipped_rows : 0;
  const bool converted = checkpoint_.layout() == CheckpointLayout::kHuggingFace && !theirs.is_same();
  const int64_t rows = size.count > 0 ? size.count : size.rows;
  const CheckpointTensor wanted = rows == whole.shape[0] || converted ? whole : whole.rows(skipped + size.first, rows);
  const bool copied = converted || !is_aligned(wanted.data, wanted.dtype());
  const bool read = copied || new_format(quantize_, name, wanted.dtype());
  if (read || device_->matrix_bytes(wanted.dtype(), rows, size.columns) > 0) check_values(wanted);
  std::shared_ptr<const void> bytes(wanted.file, wanted.data.data());
  if (converted) {
    const auto copy = in_our_layout(whole, size.rows, theirs);
    const size_t row = copy->size() / static_cast<size_t>(size.rows);
    bytes = std::shared_ptr<const void>(copy, copy->data() + static_cast<size_t>(size.first) * row);
  } else if (copied) {
    const auto copy = std::make_shared<std::vector<std::byte>>(wanted.data.begin(), wanted.data.end());
    bytes = std::shared_ptr<const void>(copy, copy->data());
  }
  DType dtype = wanted.dtype();
  bytes = quantized(name, rows, size.columns, std::move(bytes), dtype);
  Tensor matrix = uploaded(dtype, rows, size.columns, bytes);
  loaded(wanted, whole.data.size() / static_cast<size_t>(size.rows + skipped) * static_cast<size_t>(rows),
         matrix.state().storage.get() == wanted.data.data());
  return matrix;
}

std::shared_ptr<const void> CheckpointWeights::quantized(const std::string& name, int64_t count, int64_t columns,
                                                         std::shared_ptr<const void> rows, DType& dtype) const {
  const std::optional<DType> format = new_format(quantize_, name, dtype);
  if (!format) return rows;
  const auto* source = static_cast<const std::byte*>(rows.get());
  const auto width = static_cast<size_t>(columns);
  const size_t source_row = dtype_bytes(dtype, width), target_row = dtype_bytes(*format, width);
  const auto target = std::make_shared<std::vector<std::byte>>(target_row * static_cast<size_t>(count));
  for_row_ranges(count, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> values(width);
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
      dequantize_row(dtype, source + row * source_row, values.data(), columns);
      quantize_row(*format, values.data(), target->data() + row * target_row, columns);
    }
  });
  dtype = *format;
  return {target, target->data()};
}

std::vector<float> CheckpointWeights::read_floats(const std::string& name, std::vector<int64_t> shape,
                                                  const TransformersLayout& theirs) {
  int64_t count = 1;
  for (const int64_t length : shape) count *= length;
  const bool gguf = checkpoint_.layout() == CheckpointLayout::kGguf;
  if (!gguf && theirs.one_row) shape = {1, count};
  if (!gguf && !theirs.shape.empty()) shape = theirs.shape;
  const CheckpointTensor& tensor = checked(name, std::move(shape));
  tensor.prepare();
  check_values(tensor);
  std::vector<float> values = float_values(tensor, count, gguf ? TransformersLayout{} : theirs);
  loaded(tensor, tensor.data.size());
  return values;
}

Tensor CheckpointWeights::matrix_f32(const std::string& name, MatrixSize size, const TransformersLayout& theirs) {
  const auto values = std::make_shared<std::vector<float>>(read_floats(name, {size.rows, size.columns}, theirs));
  return device_->upload_matrix(DType::f32, size.rows, size.columns, {values, values->data()});
}

Tensor CheckpointWeights::head_matrices(const std::string& name, const HeadMatrices& size, bool) {
  const HeadTensors heads(names_, checkpoint_, name, size);
  const CheckpointTensor& tensor = heads.tensor();
  require_weight_format(tensor, checkpoint_);
  tensor.prepare();
  check_values(tensor);
  const int64_t rows = size.heads * size.rows;
  const DType dtype = heads.dtype();
  std::shared_ptr<const void> bytes(tensor.file, tensor.data.data());
  if (!heads.in_one_piece() || !is_aligned(tensor.data, dtype)) {
    const size_t head = dtype_bytes(dtype, static_cast<size_t>(size.rows * size.columns));
    const auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(size.heads) * head);
    for (int64_t i = 0; i < size.heads; ++i) heads.copy_head(i, copy->data() + static_cast<size_t>(i) * head);
    bytes = {copy, copy->data()};
  }
  Tensor matrix = uploaded(dtype, rows, size.columns, bytes);
  loaded(tensor, dtype_bytes(dtype, static_cast<size_t>(rows * size.columns)),
         matrix.state().storage.get() == tensor.data.data());
  return matrix;
}

Tensor CheckpointWeights::experts(const std::string& name, const ExpertsSize& size) {
  const ExpertTensors experts(names_, checkpoint_, name, size);
  const CheckpointTensor& first = experts.first();
  DType dtype = first.dtype();
  for (const CheckpointTensor* tensor : experts.tensors()) require_weight_format(*tensor, checkpoint_);
  const int64_t rows = size.experts * size.rows;
  if (is_streamed(name) && experts.has_rows()) {
    for (const CheckpointTensor* tensor : experts.tensors()) require_streamable(*tensor, name);
    const auto row = [experts](int64_t i) { return experts.row(i); };
    return streamed_->add({name, dtype, rows, size.columns, row, experts.files()});
  }
  for (const CheckpointTensor* tensor : experts.tensors()) {
    tensor->prepare();
    check_values(*tensor);
  }
  std::shared_ptr<const void> bytes(first.file, first.data.data());
  if (!experts.in_one_piece() || !is_aligned(first.data, dtype)) {
    const size_t row = dtype_bytes(dtype, static_cast<size_t>(size.columns));
    const auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows) * row);
    for (int64_t i = 0; i < rows; ++i) experts.copy_row(i, copy->data() + static_cast<size_t>(i) * row);
    bytes = {copy, copy->data()};
  }
  const size_t total = dtype_bytes(dtype, static_cast<size_t>(rows * size.columns)) / experts.tensors().size();
  bytes = quantized(name, rows, size.columns, std::move(bytes), dtype);
  Tensor matrix = uploaded(dtype, rows, size.columns, bytes);
  const bool in_place = matrix.state().storage.get() == first.data.data();
  for (const CheckpointTensor* tensor : experts.tensors()) loaded(*tensor, total, in_place);
  return matrix;
}

std::vector<float> CheckpointWeights::host_vector(const std::string& name, int64_t length,
                                                  const TransformersLayout& theirs) {
  return read_floats(name, {length}, theirs);
}

Tensor CheckpointWeights::upload(std::span<const float> values) {
  return device_->upload(DType::f32, Shape{std::ssize(values)}, values.data());
}

void WeightList::add(RequestedTensor tensor) {
  const bool known = std::ranges::any_of(tensors_, [&](const RequestedTensor& t) { return t.name == tensor.name; });
  if (!known) tensors_.push_back(std::move(tensor));
}

Tensor WeightList::matrix(const std::string& name, MatrixSize size, const TransformersLayout& theirs) {
  add({.name = name, .shape = {size.rows, size.columns}, .theirs = theirs});
  return {};
}

Tensor WeightList::matrix_f32(const std::string& name, MatrixSize size, const TransformersLayout& theirs) {
  add({.name = name, .shape = {size.rows, size.columns}, .theirs = theirs, .in_f32 = true});
  return {};
}

Tensor WeightList::head_matrices(const std::string& name, const HeadMatrices& size, bool together) {
  if (together) {
    add({.name = name, .shape = size.stored_shape()});
  } else {
    add({.name = name, .shape = size.shape(), .heads = size});
  }
  return {};
}

Tensor WeightList::experts(const std::string& name, const ExpertsSize& size) {
  add({.name = name, .shape = {size.experts, size.rows, size.columns}, .experts = size});
  return {};
}

std::vector<float> WeightList::host_vector(const std::string& name, int64_t length, const TransformersLayout& theirs) {
  add({.name = name, .shape = {length}, .theirs = theirs});
  return std::vector<float>(static_cast<size_t>(length), 1.0f);
}

Tensor WeightList::upload(std::span<const float>) { return {}; }

}  // namespace gabbro::llm
