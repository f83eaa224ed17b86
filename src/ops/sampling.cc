// Choosing tokens. A primitive: its exact result is that of a sorted row in double precision, which no composition has.
#include "src/ops/sampling.h"

#include "src/ops/op_table.h"
#include "src/ops/rules.h"

namespace gabbro {

// Inputs: logits, settings, draws(, edits, bias).
const Op kSampling = {
    .name = "sampling",
    .infer =
        [](const Args& a) {
          const int64_t rows = a[0].shape()[0];
          return std::vector<TensorSpec>{TensorSpec{.shape = Shape{rows, 1}, .dtype = DType::i32},
                                         TensorSpec{.shape = Shape{rows, 3}, .dtype = DType::f32}};
        },
};

namespace {

void require_shape(const char* what, const Tensor& x, DType dtype, const Shape& shape) {
  require_dtype("sampling", x, {dtype});
  if (x.shape() == shape) return;
  throw bad_input("[sampling] {} must have shape {}, not {}", what, shape.to_string(), x.shape().to_string());
}

}  // namespace

SampledTokens sample_tokens(const Tensor& logits, const SamplingRows& rows) {
  constexpr int64_t kSettings = 7, kMostTokens = int64_t{1} << 24;
  require_dtype("sampling", logits, {DType::f32});
  require_rank("sampling", logits, 2);
  const int64_t count = logits.shape()[0], vocabulary = logits.shape()[1];
  if (vocabulary < 1 || vocabulary >= kMostTokens)
    throw bad_input("[sampling] logits {} must have 1 to {} columns", logits.shape().to_string(), kMostTokens - 1);
  require_shape("settings", rows.settings, DType::f32, Shape{count, kSettings});
  require_shape("draws", rows.draws, DType::i32, Shape{count, 2});
  std::vector<Tensor> inputs{logits, rows.settings, rows.draws};
  if (rows.edits.defined() != rows.bias.defined()) throw bad_input("[sampling] edits and bias must come together");
  if (rows.edits.defined()) {
    require_rank("sampling", rows.edits, 3);
    const int64_t edits = rows.edits.shape()[1];
    require_shape("edits", rows.edits, DType::i32, Shape{count, edits, 2});
    require_shape("bias", rows.bias, DType::f32, Shape{count, edits});
    inputs.insert(inputs.end(), {rows.edits, rows.bias});
  }
  const std::vector<Tensor> results = record_all(kSampling, std::move(inputs));
  return {.tokens = results[0], .measures = results[1]};
}

}  // namespace gabbro
