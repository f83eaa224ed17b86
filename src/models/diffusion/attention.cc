#include "src/models/diffusion/attention.h"

#include "gabbro/ops/products.h"
#include "gabbro/ops/shapes.h"
#include "src/base/error.h"
#include "src/models/diffusion/resnet_block.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {
namespace {

std::shared_ptr<nn::Linear> attention_layer(const nn::Factory& make, int64_t in, int64_t out, bool bias) {
  return make_linear(make, {.in_features = in, .out_features = out, .bias = bias});
}

// Files of before 2023 call the layers of an autoencoder's attention otherwise.
struct LayerName {
  const char* now;
  const char* before;
};
std::string stored_name(const nn::Factory& make, const LayerName& name) {
  const bool old = make.weights != nullptr && make.weights->has(make.prefix + name.before + ".weight");
  return old ? name.before : name.now;
}

}  // namespace

Attention::Attention(const nn::Factory& make, const AttentionOptions& o) : heads_(o.heads) {
  if (o.heads < 1 || o.width % o.heads != 0)
    throw bad_input("{}{} channels are not {} heads", make.prefix, o.width, o.heads);
  add_module("to_q", to_q, attention_layer(make.at("to_q"), o.width, o.width, o.bias));
  add_module("to_k", to_k, attention_layer(make.at("to_k"), o.context, o.width, o.bias));
  add_module("to_v", to_v, attention_layer(make.at("to_v"), o.context, o.width, o.bias));
  add_module("to_out", to_out, std::make_shared<ModuleList<nn::Linear>>());
  to_out->set("0", attention_layer(make.at("to_out").at("0"), o.width, o.width, true));
}

Tensor Attention::heads(const Tensor& x) const {
  const Shape& s = x.shape();
  return permute(reshape(x, Shape{s[0], s[1], heads_, s[2] / heads_}), {0, 2, 1, 3});
}

Tensor Attention::operator()(const Tensor& x, const Tensor& context) const {
  const Tensor q = heads((*to_q)(x));                              // [B, H, L, D]
  const Tensor k = heads((*to_k)(context));                        // [B, H, S, D]
  const Tensor v = heads((*to_v)(context));                        // [B, H, S, D]
  const Tensor mixed = scaled_dot_product_attention(q, k, v, {});  // [B, H, L, D]
  return (*to_out)[0](reshape(permute(mixed, {0, 2, 1, 3}), x.shape()));
}

PixelAttention::PixelAttention(const nn::Factory& make, int64_t channels, int64_t groups, double eps) {
  const auto layer = [&](const LayerName& name) {
    return attention_layer(make.at(stored_name(make, name)), channels, channels, true);
  };
  add_module("group_norm", group_norm, make_group_norm(make.at("group_norm"), groups, channels, eps));
  add_module("to_q", to_q, layer({"to_q", "query"}));
  add_module("to_k", to_k, layer({"to_k", "key"}));
  add_module("to_v", to_v, layer({"to_v", "value"}));
  add_module("to_out", to_out, std::make_shared<ModuleList<nn::Linear>>());
  to_out->set("0", layer({"to_out.0", "proj_attn"}));
}

PixelAttention::Heads PixelAttention::heads(const Tensor& x) const {
  const Shape& s = x.shape();
  const int64_t pixels = s[2] * s[3];
  const Tensor h = permute(reshape((*group_norm)(x), Shape{s[0], s[1], pixels}), {0, 2, 1});  // [B, L, C]
  const auto one_head = [&](const Tensor& y) { return reshape(y, Shape{s[0], 1, pixels, s[1]}); };
  return {.q = one_head((*to_q)(h)), .k = one_head((*to_k)(h)), .v = one_head((*to_v)(h))};
}

Tensor PixelAttention::add(const Tensor& x, const Tensor& mixed) const {
  const Shape& s = x.shape();
  const Tensor y = (*to_out)[0](reshape(mixed, Shape{s[0], s[2] * s[3], s[1]}));  // [B, L, C]
  return x + reshape(permute(y, {0, 2, 1}), s);
}

Tensor PixelAttention::operator()(const Tensor& x) const {
  const Heads all = heads(x);
  return add(x, scaled_dot_product_attention(all.q, all.k, all.v));
}

}  // namespace gabbro::diffusion
