#include "src/models/llm/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "src/base/error.h"
#include "src/formats/gguf_parse.h"
#include "src/formats/quant/finite.h"
#include "src/formats/quant/quant.h"

namespace gabbro::llm {
namespace {

size_t bytes_of_matrices(const Checkpoint& checkpoint, const Device& device) {
  size_t bytes = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const size_t rank = tensor.shape.size();
    if (rank < 2 || rank > 3 || !tensor.known_dtype) continue;  // it may be one that the model does not use
    if (tensor.elements() == 0) continue;
    const int64_t columns = tensor.shape.back();
    bytes += MemoryBlock::rounded(device.matrix_bytes(*tensor.known_dtype, tensor.elements() / columns, columns));
  }
  return bytes;
}

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

// The names that a tensor may have in transformers' layout. Models that also see or hear have their language model
// below another name.
std::vector<std::string> transformers_names(std::span<const WeightName> names, const std::string& name) {
  const size_t suffix = name.rfind('.');  // ".weight" or ".bias"
  std::vector<std::string> found;
  for (const WeightName& known : names) {
    const auto number = match(known.gguf, std::string_view(name).substr(0, suffix));
    if (!number) continue;
    const std::string theirs =
        fmt::format(fmt::runtime(known.hugging_face), *number) + (known.whole ? "" : name.substr(suffix));
    found.push_back(theirs);
    constexpr std::string_view kModel = "model.";
    found.push_back("language_model." + theirs);
    if (theirs.starts_with(kModel)) found.push_back("model.language_model." + theirs.substr(kModel.size()));
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
  std::vector<int64_t> shape = {size.rows, size.columns};
  if (!apart) shape.insert(shape.begin(), size.experts);
  if (!apart && !gguf && first().shape == std::vector{size.experts, 2 * size.rows, size.columns}) {
    stored_rows_ = 2 * size.rows;
    shape[1] = stored_rows_;
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

const std::byte* ExpertTensors::row(int64_t row) const {
  const int64_t expert = row / size_.rows, within = row % size_.rows;
  const int64_t there = stored_rows_ == size_.rows ? within : size_.part * size_.rows + within;
  if (tensors_.size() > 1)
    return tensors_[static_cast<size_t>(expert)]->data.data() + static_cast<size_t>(there) * row_bytes_;
  return first().data.data() + static_cast<size_t>(expert * stored_rows_ + there) * row_bytes_;
}

nn::Projection WeightSource::linear(const std::string& prefix, MatrixSize size, const TransformersLayout& theirs) {
  nn::Projection projection{.weight = matrix(prefix + ".weight", size, theirs)};
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
      memory_(device_, options.streamed != nullptr ? options.streamed->resident_bytes()
                                                   : bytes_of_matrices(checkpoint, *device_)),
      check_weights_(options.check_weights),
      progress_(options.progress),
      streamed_(options.streamed) {
  for (const CheckpointTensor& tensor : checkpoint.tensors()) total_ += tensor.data.size();
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
  if (!used_in_place) tensor.file->release(tensor.offset(), tensor.data.size());  // these pages need not stay in memory
  done_ += bytes;
  if (progress_) progress_(done_, total_);
}

Tensor CheckpointWeights::streamed_rows(const CheckpointTensor& whole, const std::string& name, MatrixSize size,
                                        const TransformersLayout& theirs) {
  const bool converted = checkpoint_.layout() == CheckpointLayout::kHuggingFace && theirs.row;
  const auto row = [first = size.first, data = whole.data.data(),
                    bytes = whole.data.size() / static_cast<size_t>(size.rows), map = converted ? theirs.row : nullptr](
                       int64_t i) { return data + static_cast<size_t>(map ? map(first + i) : first + i) * bytes; };
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

Tensor CheckpointWeights::matrix(const std::string& name, MatrixSize size, const TransformersLayout& theirs) {
  const bool converted = checkpoint_.layout() == CheckpointLayout::kHuggingFace && !theirs.is_same();
  const bool transposed = converted && theirs.transposed;
  const CheckpointTensor& whole = checked(
      name, transposed ? std::vector<int64_t>{size.columns, size.rows} : std::vector<int64_t>{size.rows, size.columns});
  if (transposed && is_quantized(whole.dtype()))
    throw bad_input("{}: tensor {} is stored transposed, which {} cannot be", checkpoint_.path(),
                    gguf::quote(whole.name), whole.format);
  if (is_streamed(name)) return streamed_rows(whole, name, size, theirs);
  const int64_t rows = size.count > 0 ? size.count : size.rows;
  const CheckpointTensor wanted = rows == size.rows || converted ? whole : whole.rows(size.first, size.count);
  const bool copied = converted || !is_aligned(wanted.data, wanted.dtype());
  if (copied || device_->matrix_bytes(wanted.dtype(), rows, size.columns) > 0) check_values(wanted);
  std::shared_ptr<const void> bytes(wanted.file, wanted.data.data());
  if (converted) {
    const auto copy = in_our_layout(whole, size.rows, theirs);
    const size_t row = copy->size() / static_cast<size_t>(size.rows);
    bytes = std::shared_ptr<const void>(copy, copy->data() + static_cast<size_t>(size.first) * row);
  } else if (copied) {
    const auto copy = std::make_shared<std::vector<std::byte>>(wanted.data.begin(), wanted.data.end());
    bytes = std::shared_ptr<const void>(copy, copy->data());
  }
  Tensor matrix = uploaded(wanted.dtype(), rows, size.columns, bytes);
  loaded(wanted, whole.data.size() / static_cast<size_t>(size.rows) * static_cast<size_t>(rows),
         matrix.state().storage.get() == wanted.data.data());
  return matrix;
}

Tensor CheckpointWeights::matrix_f32(const std::string& name, MatrixSize size) {
  const CheckpointTensor& tensor = checked(name, {size.rows, size.columns});
  check_values(tensor);
  const std::vector<std::byte> aligned(tensor.data.begin(), tensor.data.end());
  const auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(tensor.elements()));
  const size_t row = aligned.size() / static_cast<size_t>(size.rows);
  for (int64_t i = 0; i < size.rows; ++i)
    dequantize_row(tensor.dtype(), aligned.data() + static_cast<size_t>(i) * row, values->data() + i * size.columns,
                   size.columns);
  loaded(tensor, tensor.data.size());
  return device_->upload_matrix(DType::f32, size.rows, size.columns, {values, values->data()});
}

Tensor CheckpointWeights::experts(const std::string& name, const ExpertsSize& size) {
  const ExpertTensors experts(names_, checkpoint_, name, size);
  const CheckpointTensor& first = experts.first();
  const DType dtype = first.dtype();
  for (const CheckpointTensor* tensor : experts.tensors()) require_weight_format(*tensor, checkpoint_);
  const int64_t rows = size.experts * size.rows;
  if (is_streamed(name)) {
    const auto row = [experts](int64_t i) { return experts.row(i); };
    return streamed_->add({name, dtype, rows, size.columns, row, experts.files()});
  }
  for (const CheckpointTensor* tensor : experts.tensors()) check_values(*tensor);
  std::shared_ptr<const void> bytes(first.file, first.data.data());
  if (!experts.in_one_piece() || !is_aligned(first.data, dtype)) {
    const size_t row = dtype_bytes(dtype, static_cast<size_t>(size.columns));
    const auto copy = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(rows) * row);
    for (int64_t i = 0; i < rows; ++i) std::memcpy(copy->data() + static_cast<size_t>(i) * row, experts.row(i), row);
    bytes = {copy, copy->data()};
  }
  Tensor matrix = uploaded(dtype, rows, size.columns, bytes);
  const bool in_place = matrix.state().storage.get() == first.data.data();
  const size_t total = dtype_bytes(dtype, static_cast<size_t>(rows * size.columns)) / experts.tensors().size();
  for (const CheckpointTensor* tensor : experts.tensors()) loaded(*tensor, total, in_place);
  return matrix;
}

std::vector<float> CheckpointWeights::host_vector(const std::string& name, int64_t length,
                                                  const TransformersLayout& theirs) {
  const bool converted = checkpoint_.layout() == CheckpointLayout::kHuggingFace && !theirs.is_same();
  const bool row = theirs.one_row && checkpoint_.layout() == CheckpointLayout::kHuggingFace;
  const CheckpointTensor& tensor = checked(name, row ? std::vector<int64_t>{1, length} : std::vector{length});
  check_values(tensor);
  std::vector<std::byte> aligned(tensor.data.begin(), tensor.data.end());
  if (converted) aligned = std::move(*in_our_layout(tensor, length, theirs));
  std::vector<float> values(static_cast<size_t>(length));
  dequantize_row(tensor.dtype(), aligned.data(), values.data(), length);
  if (converted) {
    for (float& value : values) value += theirs.offset;
  }
  loaded(tensor, tensor.data.size());
  return values;
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

Tensor WeightList::matrix_f32(const std::string& name, MatrixSize size) {
  add({.name = name, .shape = {size.rows, size.columns}, .in_f32 = true});
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
