// Elements in reverse order along some axes.
#include "src/ops/index_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

bool is_reversed(const Attributes& attributes, int axis) { return (attributes.integer("axes") >> axis & 1) != 0; }

}  // namespace

// The attribute `axes` has a bit for each axis.
const Op kFlip = {
    .name = "flip",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          Tensor y = a[0];
          for (int axis = 0; axis < y.shape().rank(); ++axis) {
            const int64_t length = y.shape()[axis];
            if (is_reversed(a.attributes, axis))
              y = pick(y, iota(y.device(), length, DType::i32, static_cast<double>(length - 1), -1), axis,
                       {"flip", axis});
          }
          return std::vector<Tensor>{y};
        },
    .gradient =
        [](const GradientArgs& a) {
          return Gradients{record(kFlip, {a.gradients[0]}, {{"axes", a.attributes.integer("axes")}})};
        },
};

Tensor flip(const Tensor& x, const Axes& axes) {
  require_plain("flip", x);
  int64_t reversed = 0;
  for (const int axis : axes.of("flip", x.shape()))
    if (x.shape()[axis] > 1) reversed |= int64_t{1} << axis;
  return reversed == 0 || x.shape().elements() == 0 ? x : record(kFlip, {x}, {{"axes", reversed}});
}

}  // namespace gabbro
