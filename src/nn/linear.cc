#include "gabbro/nn/linear.h"

#include <cmath>

#include "gabbro/nn/init.h"
#include "gabbro/ops/products.h"
#include "src/base/error.h"

namespace gabbro::nn {

Linear::Linear(const Factory& make, const LinearOptions& o) {
  if (o.in_features < 0 || o.out_features < 0)
    throw bad_input("[linear] {} features cannot become {}", o.in_features, o.out_features);
  const Shape shape{o.out_features, o.in_features};
  add_parameter("weight", weight, init::within_fan_in(make, shape, shape));
  if (o.bias) add_parameter("bias", bias, init::within_fan_in(make, Shape{o.out_features}, shape));
}

Bilinear::Bilinear(const Factory& make, const BilinearOptions& o) {
  if (o.in1_features < 1 || o.in2_features < 0 || o.out_features < 0) {
    throw bad_input("[bilinear] {} and {} features cannot become {}", o.in1_features, o.in2_features, o.out_features);
  }
  const double bound = 1 / std::sqrt(static_cast<double>(o.in1_features));
  add_parameter("weight", weight,
                init::uniform(make, Shape{o.out_features, o.in1_features, o.in2_features}, -bound, bound));
  if (o.bias) add_parameter("bias", bias, init::uniform(make, Shape{o.out_features}, -bound, bound));
}

Tensor Bilinear::operator()(const Tensor& x1, const Tensor& x2) const { return bilinear(x1, x2, weight, bias); }

}  // namespace gabbro::nn
