#include "src/models/diffusion/adaptable.h"

#include <algorithm>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/image.h"
#include "gabbro/ops/shapes.h"
#include "src/models/diffusion/image_layout.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {
namespace {

// Parameters are loaded in f32; products and convolutions convert theirs.
nn::Factory in_f32(nn::Factory make) {
  make.dtype = DType::f32;
  return make;
}

}  // namespace

void Adaptable::add(size_t adapter, std::shared_ptr<const AdapterStrengths> strengths, AdapterDelta delta) {
  terms_.push_back({adapter, std::move(strengths), std::move(delta)});
}

Tensor Adaptable::Term::scaled(const Tensor& x) const {
  return x * reshape(slice(strengths->values, 0, static_cast<int64_t>(adapter), 1), Shape{});
}

std::vector<const Adaptable::Term*> Adaptable::active_terms() const {
  std::vector<const Term*> active;
  for (const Term& term : terms_) {
    if (term.strengths->active[term.adapter]) active.push_back(&term);
  }
  return active;
}

Tensor Adaptable::with_terms(const Tensor& base, Tensor AdapterDelta::*member) const {
  Tensor sum = base;
  for (const Term* const term : active_terms()) {
    const Tensor& delta = term->delta.*member;
    if (!delta.defined()) continue;
    sum = sum.defined() ? sum + term->scaled(delta) : term->scaled(delta);
  }
  return sum;
}

bool Adaptable::adds_to(Tensor AdapterDelta::*member) const {
  return std::ranges::any_of(active_terms(), [&](const Term* term) { return (term->delta.*member).defined(); });
}

AdaptableLinear::AdaptableLinear(const nn::Factory& make, const nn::LinearOptions& options)
    : nn::Linear(in_f32(make), options) {
  if (!has_channels_last(make.dtype) || weight.spec().packed || is_quantized(weight.dtype())) return;
  weight = cast(weight, make.dtype);
  if (bias.defined()) bias = cast(bias, make.dtype);
  Tensor converted[] = {weight, bias};
  eval(std::span(converted, bias.defined() ? 2 : 1));
}

Tensor AdaptableLinear::add_terms(Tensor y, const Tensor& x) const {
  const DType dtype = y.dtype();
  const auto in_dtype = [dtype](const Tensor& t) { return cast(t, dtype); };
  for (const Term* const term : active_terms()) {
    const AdapterDelta& delta = term->delta;
    if (delta.down.defined()) {
      const Tensor inner = in_dtype(term->scaled(linear(x, in_dtype(delta.down))));  // [..., R]
      y = y + linear(inner, in_dtype(delta.up));
    }
    if (delta.weight.defined()) y = y + in_dtype(term->scaled(linear(x, in_dtype(delta.weight))));
    if (delta.bias.defined()) y = y + in_dtype(term->scaled(delta.bias));
  }
  return y;
}

AdaptableConv2d::AdaptableConv2d(const nn::Factory& make, const nn::ConvModuleOptions& options)
    : nn::Conv2d(in_f32(make), options) {
  if (!has_channels_last(make.dtype)) return;
  weight = cast(permute(weight, {0, 2, 3, 1}), make.dtype);
  if (is_pointwise() && bias.defined()) low_bias_ = cast(bias, make.dtype);
  Tensor converted[] = {weight, low_bias_};
  eval(std::span(converted, low_bias_.defined() ? 2 : 1));
}

bool AdaptableConv2d::is_pointwise() const {
  const nn::ConvModuleOptions& o = options();
  const auto all = [](const std::vector<int64_t>& axes, int64_t wanted) {
    return std::ranges::all_of(axes, [wanted](int64_t value) { return value == wanted; });
  };
  return all(o.kernel_size, 1) && all(o.stride, 1) && all(o.padding, 0);
}

Tensor AdaptableConv2d::convolve(const Tensor& x, const Tensor& shift, const Tensor& residual) {
  if (has_channels_last(x)) return convolve_pixels(x, {.shift = shift, .residual = residual});
  Tensor y = convolve_planes(x);
  if (shift.defined()) y = y + expand_dims(shift, {2, 3});
  return residual.defined() ? residual + y : y;
}

Tensor AdaptableConv2d::convolve_planes(const Tensor& x) {
  const std::vector<const Term*> active = active_terms();
  if (active.empty()) return nn::Conv2d::forward(x);
  const Tensor own_weight = weight, own_bias = bias;
  weight = with_terms(own_weight, &AdapterDelta::weight);
  bias = with_terms(own_bias, &AdapterDelta::bias);
  Tensor y = nn::Conv2d::forward(x);
  weight = own_weight;
  bias = own_bias;
  const nn::ConvModuleOptions& o = options();
  const ConvOptions window{.stride = o.stride, .padding = o.padding, .dilation = o.dilation};
  for (const Term* const term : active) {
    if (term->delta.down.defined())
      y = y + conv2d(term->scaled(conv2d(x, term->delta.down, {}, window)), term->delta.up);  // [B, R, H, W]
  }
  return y;
}

Tensor AdaptableConv2d::convolve_pixels(const Tensor& x, const ConvNhwcOptions& options) {
  const DType dtype = x.dtype();
  const std::vector<const Term*> active = active_terms();
  const bool plain = !options.shift.defined() && !options.residual.defined() && !options.doubled && active.empty();
  // Kernels of products are faster than kernels of convolutions.
  if (is_pointwise() && plain)
    return linear(x, reshape(weight, Shape{weight.shape()[0], weight.shape()[3]}), low_bias_);
  const auto as_weight = [dtype](const Tensor& w) { return cast(permute(w, {0, 2, 3, 1}), dtype); };
  Tensor used = weight;
  if (adds_to(&AdapterDelta::weight)) {
    const Tensor planes = permute(cast(weight, DType::f32), {0, 3, 1, 2});  // [O, C, kernel...]
    used = as_weight(with_terms(planes, &AdapterDelta::weight));
  }
  const nn::ConvModuleOptions& o = this->options();
  ConvNhwcOptions window{.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .doubled = options.doubled};
  Tensor added = options.residual;
  for (const Term* const term : active) {
    if (!term->delta.down.defined()) continue;
    const Tensor inner = cast(term->scaled(conv2d_nhwc(x, as_weight(term->delta.down), {}, window)), dtype);
    added = conv2d_nhwc(inner, as_weight(term->delta.up), {}, {.residual = added});  // [B, R, H, W] to [B, O, H, W]
  }
  window.shift = options.shift;
  window.residual = added;
  return conv2d_nhwc(x, used, with_terms(bias, &AdapterDelta::bias), window);
}

Tensor AdaptableGroupNorm::forward(const Tensor& x) {
  return has_channels_last(x) ? norm_pixels(x, false) : AdaptableNorm<nn::GroupNorm>::forward(x);
}

Tensor AdaptableGroupNorm::then_silu(const Tensor& x) {
  return has_channels_last(x) ? norm_pixels(x, true) : silu(forward(x));
}

Tensor AdaptableGroupNorm::norm_pixels(const Tensor& x, bool then_silu) const {
  return group_norm_nhwc(x, options().num_groups, with_terms(weight, &AdapterDelta::weight),
                         with_terms(bias, &AdapterDelta::bias), static_cast<float>(options().eps), then_silu);
}

}  // namespace gabbro::diffusion
