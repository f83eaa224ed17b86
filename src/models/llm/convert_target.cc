#include "src/models/llm/convert_target.h"

#include <cstring>

#include "src/base/error.h"
#include "src/formats/gguf_parse.h"
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

void ConvertTarget::convert_rows(int64_t first, int64_t count, const std::string& model_path,
                                 std::vector<std::byte>& out) const {
  const int64_t width = columns();
  const size_t row_bytes = bytes / static_cast<size_t>(rows());
  out.resize(row_bytes * static_cast<size_t>(count));
  if (table != nullptr) {
    std::memcpy(out.data(), table->data() + first * width, out.size());
    return;
  }
  const bool is_copied =
      (!dtype || *dtype == from()) && theirs.offset == 0 && !theirs.column && !theirs.factor && merged.terms().empty();
  std::vector<float> values(static_cast<size_t>(width));
  std::vector<std::byte> gathered;
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* const row = source_row(first + i, gathered);
    if (dtype && !all_finite(from(), row, width)) {
      throw bad_input("{}: tensor {} has values that are not numbers; the file is damaged", model_path,
                      gguf::quote(source->name));
    }
    std::byte* const to = out.data() + static_cast<size_t>(i) * row_bytes;
    if (is_copied) {
      std::memcpy(to, row, row_bytes);
      continue;
    }
    dequantize_row(from(), row, values.data(), width);
    if (theirs.offset != 0) {
      for (float& value : values) value += theirs.offset;
    }
    merged.add_to(first + i, values);
    if (const auto& column = theirs.column) {
      const std::vector<float> stored = values;
      for (int64_t j = 0; j < width; ++j) values[static_cast<size_t>(j)] = stored[static_cast<size_t>(column(j))];
    }
    if (const auto& factor = theirs.factor) {
      for (float& value : values) value *= factor(first + i);
    }
    quantize_row(*dtype, values.data(), importance_of(first + i), to, width);
  }
}

}  // namespace gabbro::llm
