#include "src/convert/target.h"

#include <cstring>
#include <limits>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/damaged_tensor.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quant/finite.h"
#include "src/formats/quant/quant.h"

namespace gabbro::llm {

const std::byte* ConvertTarget::source_row(int64_t row, std::vector<std::byte>& gathered) const {
  const CheckpointTensor& tensor = *source;
  if (experts && experts->has_rows()) return experts->row(row);
  if (experts) {
    gathered.resize(dtype_bytes(tensor.dtype(), static_cast<size_t>(columns())));
    experts->copy_row(row, gathered.data());
    return gathered.data();
  }
  if (heads && !heads->in_one_piece()) {
    gathered.resize(dtype_bytes(from(), static_cast<size_t>(columns())));
    heads->copy_row(row, gathered.data());
    return gathered.data();
  }
  const bool vector = shape.size() == 1;
  if (vector && theirs.row) {
    const size_t element = tensor.data.size() / static_cast<size_t>(columns());
    gathered.resize(tensor.data.size());
    for (int64_t j = 0; j < columns(); ++j)
      copy_row(tensor, columns(), theirs, j, gathered.data() + static_cast<size_t>(j) * element);
    return gathered.data();
  }
  const size_t row_bytes =
      tensor.data.size() / static_cast<size_t>(rows() + theirs.skipped_rows + theirs.trailing_rows);
  if (theirs.transposed) {
    gathered.resize(row_bytes);
    copy_row(tensor, rows(), theirs, row, gathered.data());
    return gathered.data();
  }
  return tensor.data.data() +
         static_cast<size_t>((theirs.row ? theirs.row(row) : row) + theirs.skipped_rows) * row_bytes;
}

// The sources are searched for the place only if there is one.
void ConvertTarget::check_source(const std::byte* row, const std::string& model_path) const {
  const DType stored = from();
  if (!is_floating(stored) && !is_quantized(stored)) return;
  if (all_finite(stored, row, columns())) return;
  for (const CheckpointTensor* tensor : sources()) {
    if (const auto found = find_non_finite(tensor->dtype(), tensor->data.data(), tensor->elements()))
      throw damaged_tensor(model_path, tensor->name, *found, tensor->shape);
  }
  const int64_t row_shape[] = {columns()};  // of heads that were taken apart
  throw damaged_tensor(model_path, source->name, *find_non_finite(stored, row, columns()), row_shape);
}

void ConvertTarget::refuse(const std::string& model_path, int64_t row, int64_t column, float value) const {
  const std::vector<int64_t> whole = shape.empty() ? std::vector<int64_t>{1} : shape;
  const std::string place = describe(FoundValue{row * columns() + column, value}, whole);
  const std::string wide = source == nullptr || *dtype == DType::bf16 || *dtype == DType::f32 ? "" : "--type bf16";
  std::string of = quote(name);
  if (source != nullptr && source->name != name) of = quote(source->name) + ", in the new file " + of;
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: tensor {}: {} is too large for {}", model_path, of, place, dtype_name(*dtype)),
              wide.empty() ? "" : wide + " has the range of f32");
}

void ConvertTarget::read_values(int64_t row, const std::byte* stored, std::vector<float>& values) const {
  dequantize_row(from(), stored, values.data(), columns());
  if (theirs.offset != 0) {
    for (float& value : values) value += theirs.offset;
  }
  merged.add_to(row, values);
  if (const auto& column = theirs.column) {
    const std::vector<float> before = values;
    for (size_t j = 0; j < values.size(); ++j) values[j] = before[static_cast<size_t>(column(static_cast<int64_t>(j)))];
  }
  if (const auto& factor = theirs.factor) {
    for (float& value : values) value *= factor(row);
  }
}

void ConvertTarget::convert_rows(int64_t first, int64_t count, const std::string& model_path,
                                 std::vector<std::byte>& out) const {
  const int64_t width = columns();
  const size_t row_bytes = bytes / static_cast<size_t>(rows());
  out.resize(row_bytes * static_cast<size_t>(count));
  if (table != nullptr) {
    const std::span<const float> values(table->data() + first * width, static_cast<size_t>(count * width));
    if (const auto found = find_non_finite(values))
      refuse(model_path, first + found->index / width, found->index % width, found->value);
    std::memcpy(out.data(), values.data(), out.size());
    return;
  }
  const bool is_copied =
      (!dtype || *dtype == from()) && theirs.offset == 0 && !theirs.column && !theirs.factor && merged.terms().empty();
  std::vector<float> values(static_cast<size_t>(width));
  std::vector<std::byte> gathered;
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* const row = source_row(first + i, gathered);
    check_source(row, model_path);
    std::byte* const to = out.data() + static_cast<size_t>(i) * row_bytes;
    if (is_copied) {
      std::memcpy(to, row, row_bytes);
      continue;
    }
    read_values(first + i, row, values);
    if (!(farthest(values) < std::numeric_limits<float>::infinity())) {
      const FoundValue found = *find_non_finite(values);
      refuse(model_path, first + i, found.index, found.value);
    }
    quantize_row(*dtype, values.data(), importance_of(first + i), to, width);
    if (const auto found = find_overflow(*dtype, values, to)) refuse(model_path, first + i, found->index, found->value);
  }
}

}  // namespace gabbro::llm
