#include "src/models/diffusion/adaptable.h"

#include "gabbro/ops/image.h"
#include "gabbro/ops/shapes.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {

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

Tensor AdaptableLinear::forward(const Tensor& x) {
  Tensor y = nn::Linear::forward(x);
  for (const Term* const term : active_terms()) {
    const AdapterDelta& delta = term->delta;
    if (delta.down.defined()) y = y + linear(term->scaled(linear(x, delta.down)), delta.up);  // [..., R]
    if (delta.weight.defined()) y = y + term->scaled(linear(x, delta.weight));
    if (delta.bias.defined()) y = y + term->scaled(delta.bias);
  }
  return y;
}

Tensor AdaptableConv2d::forward(const Tensor& x) {
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

}  // namespace gabbro::diffusion
