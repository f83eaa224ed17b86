#include "src/models/diffusion/spatial_transformer.h"

#include "gabbro/ops/shapes.h"
#include "src/models/diffusion/adaptable.h"
#include "src/models/diffusion/image_layout.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {
namespace {

std::shared_ptr<nn::LayerNorm> make_layer_norm(const nn::Factory& make, int64_t width) {
  nn::Factory in_f32 = make;
  in_f32.dtype = DType::f32;
  return std::make_shared<AdaptableLayerNorm>(in_f32, nn::LayerNormOptions{.normalized_shape = {width}});
}

std::shared_ptr<AdaptableLinear> make_projection(const nn::Factory& make, int64_t in, int64_t out) {
  return make_linear(make, {.in_features = in, .out_features = out});
}

constexpr double kNormEpsilon = 1e-6;  // of the group norm before a transformer, whatever the U-Net's is

}  // namespace

FeedForward::FeedForward(const nn::Factory& make, int64_t channels) {
  const nn::Factory inside = make.at("net");
  proj_ = make_projection(inside.at("0").at("proj"), channels, 8 * channels);
  out_ = make_projection(inside.at("2"), 4 * channels, channels);
  const auto gated = std::make_shared<ModuleList<nn::Linear>>();
  gated->set("proj", proj_);
  const auto net = std::make_shared<ModuleList<nn::Module>>();
  net->set("0", gated);
  net->set("2", out_);
  add_module("net", net);
}

Tensor FeedForward::operator()(const Tensor& x) const {
  const std::vector<Tensor> both = split((*proj_)(x), 2, -1);  // value and gate, [B, L, 4C]
  return (*out_)(both[0] * gelu(both[1]));
}

TransformerBlock::TransformerBlock(const nn::Factory& make, const SpatialTransformerOptions& o) {
  const int64_t c = o.channels;
  add_module("norm1", norm1, make_layer_norm(make.at("norm1"), c));
  add_module("attn1", attn1,
             std::make_shared<Attention>(make.at("attn1"), AttentionOptions{.width = c, .heads = o.heads}));
  add_module("norm2", norm2, make_layer_norm(make.at("norm2"), c));
  add_module("attn2", attn2,
             std::make_shared<Attention>(make.at("attn2"),
                                         AttentionOptions{.width = c, .context = o.context, .heads = o.heads}));
  add_module("norm3", norm3, make_layer_norm(make.at("norm3"), c));
  add_module("ff", ff, std::make_shared<FeedForward>(make.at("ff"), c));
}

Tensor TransformerBlock::operator()(const Tensor& x, TensorQueue& text) const {
  Tensor h = x + (*attn1)((*norm1)(x));  // [B, L, C]
  h = h + (*attn2)((*norm2)(h), text);
  return h + (*ff)((*norm3)(h));
}

SpatialTransformer::SpatialTransformer(const nn::Factory& make, const SpatialTransformerOptions& o)
    : linear_projection_(o.linear_projection) {
  const int64_t c = o.channels;
  const auto projection = [&](const char* name) -> std::shared_ptr<nn::Layer> {
    if (o.linear_projection) return make_projection(make.at(name), c, c);
    return make_conv(make.at(name), {.in = c, .out = c, .kernel = 1, .padding = 0});
  };
  add_module("norm", norm, make_group_norm(make.at("norm"), o.groups, c, kNormEpsilon));
  add_module("proj_in", proj_in, projection("proj_in"));
  add_module("transformer_blocks", transformer_blocks, std::make_shared<ModuleList<TransformerBlock>>());
  for (int64_t i = 0; i < o.layers; ++i) transformer_blocks->append(make.at("transformer_blocks"), o);
  add_module("proj_out", proj_out, projection("proj_out"));
}

Tensor SpatialTransformer::operator()(const Tensor& x, const Tensor& context) const {
  std::vector<Tensor> text;
  append_text(context, text);
  TensorQueue queue(std::move(text));
  return (*this)(x, queue);
}

void SpatialTransformer::append_text(const Tensor& context, std::vector<Tensor>& text) const {
  for (const auto& block : *transformer_blocks) block->attn2->append_text(context, text);
}

Tensor SpatialTransformer::operator()(const Tensor& x, TensorQueue& text) const {
  Tensor h = (*norm)(x);
  h = linear_projection_ ? (*proj_in)(tokens_of(h)) : tokens_of((*proj_in)(h));  // [B, L, C]
  for (const auto& block : *transformer_blocks) h = (*block)(h, text);
  return x + (linear_projection_ ? image_of_tokens((*proj_out)(h), x) : (*proj_out)(image_of_tokens(h, x)));
}

}  // namespace gabbro::diffusion
