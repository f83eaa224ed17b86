// Rotary position embedding (Su et al. 2021).
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

// Each pair (a, b) of the first R elements of a head turns by the angle position · inverse_frequency:
// (a, b) -> magnitude · (a cos - b sin, b cos + a sin). The elements from R on stay.
const Op kRope = {
    .name = "rope",
    .infer = [](const Args& a) { return result(a[0].shape(), DType::f32); },
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];  // [T, H, D]
          const int64_t tokens = x.shape()[0];
          const int64_t heads = x.shape()[1];
          const int64_t half = a[2].shape()[0];  // R/2
          const Tensor magnitude = scalar(x.device(), a.attributes.real("magnitude"));
          const Tensor positions = reshape(cast(a[1], DType::f32), Shape{tokens, 1, 1});
          const Tensor angles = positions * reshape(a[2], Shape{1, 1, half});  // [T, 1, R/2]
          const Tensor c = cos(angles) * magnitude;
          const Tensor s = sin(angles) * magnitude;
          const Tensor rotated = slice(x, 2, 0, 2 * half);  // [T, H, R]
          const bool interleaved = a.attributes.integer("interleaved") != 0;
          const Tensor first = interleaved ? slice(rotated, 2, 0, half, 2) : slice(rotated, 2, 0, half);
          const Tensor second = interleaved ? slice(rotated, 2, 1, half, 2) : slice(rotated, 2, half, half);
          const Tensor y0 = first * c - second * s;
          const Tensor y1 = second * c + first * s;
          Tensor y = interleaved ? reshape(concat({reshape(y0, Shape{tokens, heads, half, 1}),
                                                   reshape(y1, Shape{tokens, heads, half, 1})},
                                                  3),
                                           Shape{tokens, heads, 2 * half})
                                 : concat({y0, y1}, 2);
          const int64_t rest = x.shape()[2] - 2 * half;
          if (rest > 0) y = concat({y, slice(x, 2, 2 * half, rest)}, 2);
          return std::vector{y};
        },
    // Rotated back. The gradient of an angle is that of its pair (y0, y1): dy1 · y0 - dy0 · y1.
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor &y = a.outputs[0], &dy = a.gradients[0];
      const int64_t half = a[2].shape()[0];
      const bool interleaved = a.attributes.integer("interleaved") != 0;
      const auto first = [&](const Tensor& x) { return interleaved ? slice(x, 2, 0, half, 2) : slice(x, 2, 0, half); };
      const auto second = [&](const Tensor& x) {
        return interleaved ? slice(x, 2, 1, half, 2) : slice(x, 2, half, half);
      };
      const Tensor turns = sum_to(second(dy) * first(y) - first(dy) * second(y), Shape{a[0].shape()[0], 1, half});
      const Tensor positions = reshape(cast(a[1], DType::f32), Shape{a[0].shape()[0], 1, 1});
      return {record(kRope, {dy, a[1], neg(a[2])}, a.attributes), Tensor(), sum_to(turns * positions, a[2].shape())};
    },
};

Tensor rope(const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, const RopeOptions& options) {
  require_dtype("rope", x, {DType::f32});
  require_rank("rope", x, 3);
  require_dtype("rope", positions, {DType::i32});
  require_rank("rope", inverse_frequencies, 1);
  require_dtype("rope", inverse_frequencies, {DType::f32});
  if (!(positions.shape() == Shape{x.shape()[0]})) {
    throw bad_input("[rope] {} positions for {} tokens", positions.shape().to_string(), x.shape()[0]);
  }
  if (2 * inverse_frequencies.shape()[0] > x.shape()[2] || inverse_frequencies.shape()[0] == 0) {
    throw bad_input("[rope] {} frequencies do not fit heads of {} elements", inverse_frequencies.shape()[0],
                    x.shape()[2]);
  }
  return record(kRope, {x, positions, inverse_frequencies},
                {{"interleaved", int64_t{options.interleaved}}, {"magnitude", static_cast<double>(options.magnitude)}});
}

}  // namespace gabbro
