// F64 tensors, as scripts of research and converters of other frameworks save them. They are read in f32.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quantized_folders/numbers.h"
#include "src/formats/quantized_folders/published.h"

namespace gabbro::published {
namespace {

void narrow(const CheckpointTensor& tensor, std::span<std::byte> out) {
  for_row_ranges(tensor.elements(), 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto value = element<double>(tensor, i);
      if (std::isfinite(value) && std::abs(value) > static_cast<double>(std::numeric_limits<float>::max()))
        throw bad_input("{}: tensor {}: {} is beyond the range of f32, in which F64 is read", tensor.file->path(),
                        quote(tensor.name), value);
      const auto narrowed = static_cast<float>(value);
      std::memcpy(out.data() + static_cast<size_t>(i) * sizeof narrowed, &narrowed, sizeof narrowed);
    }
  });
}

}  // namespace

void add_f64(std::span<const CheckpointTensor> tensors, std::vector<Matrix>& out) {
  std::vector<const CheckpointTensor*> used;
  for (const Matrix& matrix : out) used.insert(used.end(), matrix.parts.begin(), matrix.parts.end());
  for (const CheckpointTensor& tensor : tensors) {
    if (tensor.known_dtype != DType::f64 || std::ranges::find(used, &tensor) != used.end()) continue;
    out.push_back({.name = std::string(tensor.name),
                   .format = tensor.format,
                   .dtype = DType::f32,
                   .shape = tensor.shape,
                   .parts = {&tensor},
                   .fill = [tensor](std::span<std::byte> memory) { narrow(tensor, memory); }});
  }
}

}  // namespace gabbro::published
