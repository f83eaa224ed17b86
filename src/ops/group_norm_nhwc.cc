// GroupNorm (Wu & He 2018) of images whose channels are last, and the SiLU that follows it in residual networks.
#include "src/ops/autocast.h"
#include "src/ops/op_table.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

constexpr const char* kGroupNormNhwcName = "group_norm_nhwc";

Tensor of_channels(const Tensor& parameter, const Tensor& x) {
  require_dtype(kGroupNormNhwcName, parameter, {DType::f32, x.dtype()});
  const Shape channels{x.shape()[x.shape().rank() - 1]};
  if (!(parameter.shape() == channels)) {
    throw bad_input("[{}] a parameter of shape {} where {} is needed for x {}", kGroupNormNhwcName,
                    parameter.shape().to_string(), channels.to_string(), x.shape().to_string());
  }
  return in_f32(parameter);
}

}  // namespace

// x [N, ..., C], weight f32 [C], bias f32 [C]; statistics are over the places of an image and the C / groups channels
// of a group. The result is rounded once.
const Op kGroupNormNhwc = {
    .name = "group_norm_nhwc",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          const Shape& shape = a[0].shape();
          const int64_t images = shape[0], channels = shape[shape.rank() - 1];
          const int64_t places = images * channels == 0 ? 0 : shape.elements() / (images * channels);
          const Tensor x = permute(reshape(in_f32(a[0]), Shape{images, places, channels}), {0, 2, 1});
          const Tensor y = group_norm(x, a.attributes.integer("groups"), a[1], a[2],
                                      static_cast<float>(a.attributes.real("epsilon")));
          const Tensor last = reshape(permute(y, {0, 2, 1}), shape);
          return std::vector{cast(a.attributes.integer("silu") != 0 ? silu(last) : last, a[0].dtype())};
        },
};

Tensor group_norm_nhwc(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, float epsilon,
                       bool then_silu) {
  require_dtype(kGroupNormNhwcName, x, kReal);
  if (x.shape().rank() < 3) {
    throw bad_input("[{}] wants x [N, ..., C], not shape {}", kGroupNormNhwcName, x.shape().to_string());
  }
  if (groups < 1 || x.shape()[x.shape().rank() - 1] % groups != 0) {
    throw bad_input("[{}] {} groups do not divide the channels of shape {}", kGroupNormNhwcName, groups,
                    x.shape().to_string());
  }
  require_defined(kGroupNormNhwcName, weight);
  require_defined(kGroupNormNhwcName, bias);
  return record(kGroupNormNhwc, {x, of_channels(weight, x), of_channels(bias, x)},
                {{"groups", groups}, {"epsilon", static_cast<double>(epsilon)}, {"silu", int64_t{then_silu}}});
}

}  // namespace gabbro
