#include "src/models/diffusion/attention.h"

#include <algorithm>
#include <cmath>

#include "gabbro/ops/products.h"
#include "gabbro/ops/shapes.h"
#include "src/base/error.h"
#include "src/models/diffusion/image_layout.h"
#include "src/models/diffusion/resnet_block.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {
namespace {

std::shared_ptr<AdaptableLinear> attention_layer(const nn::Factory& make, int64_t in, int64_t out, bool bias) {
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

// Attention of one head, which may be wider than kernels of attention take, in f16 or bf16, a range of queries at a
// time. f16 multiplies in f16, and its softmax takes exponentials in f32. Scores in bf16 would be wrong by a hundredth
// of a probability, so bf16 multiplies in f32.
Tensor attend_wide(const Tensor& q, const Tensor& k, const Tensor& v) {
  constexpr int64_t kWidestHead = 256, kMostScores = int64_t{1} << 26;  // 128 MiB in f16
  const int64_t queries = q.shape()[2], keys = k.shape()[2], depth = q.shape()[3];
  if (depth <= kWidestHead) return scaled_dot_product_attention(q, k, v);
  const double scale = 1 / std::sqrt(static_cast<double>(depth));
  const int64_t step = std::clamp<int64_t>(kMostScores / keys, 1, queries);
  std::vector<Tensor> mixed;
  for (int64_t first = 0; first < queries; first += step) {
    const Tensor part = step == queries ? q : slice(q, 2, first, std::min(step, queries - first));
    if (q.dtype() == DType::f16) {
      mixed.push_back(matmul(softmax(matmul(part * scale, permute(k, {0, 1, 3, 2}))), v));
    } else {
      mixed.push_back(scaled_dot_product_attention(part, k, v));
    }
  }
  return mixed.size() == 1 ? mixed.front() : concat(mixed, 2);
}

}  // namespace

Attention::Attention(const nn::Factory& make, const AttentionOptions& o) : heads_(o.heads) {
  if (o.heads < 1 || o.width % o.heads != 0)
    throw bad_input("{}{} channels are not {} heads", make.prefix, o.width, o.heads);
  const int64_t context = o.context > 0 ? o.context : o.width;
  add_module("to_q", to_q, attention_layer(make.at("to_q"), o.width, o.width, o.bias));
  add_module("to_k", to_k, attention_layer(make.at("to_k"), context, o.width, o.bias));
  add_module("to_v", to_v, attention_layer(make.at("to_v"), context, o.width, o.bias));
  add_module("to_out", to_out, std::make_shared<ModuleList<nn::Linear>>());
  to_out->set("0", attention_layer(make.at("to_out").at("0"), o.width, o.width, true));
  std::vector<std::shared_ptr<AdaptableLinear>> joint{to_k, to_v};
  if (o.context == 0) joint.insert(joint.begin(), to_q);
  joint_ = JointLinear(std::move(joint));
}

Tensor Attention::heads(const Tensor& x) const {
  const Shape& s = x.shape();
  return permute(reshape(x, Shape{s[0], s[1], heads_, s[2] / heads_}), {0, 2, 1, 3});
}

Tensor Attention::attend(const Tensor& q, const Tensor& k, const Tensor& v) const {
  const Tensor mixed = scaled_dot_product_attention(heads(q), heads(k), heads(v), {.whole = true});  // [B, H, L, D]
  return (*to_out)[0](reshape(permute(mixed, {0, 2, 1, 3}), q.shape()));
}

Tensor Attention::operator()(const Tensor& x) const {
  const std::vector<Tensor> qkv = joint_(x);
  return attend(qkv[0], qkv[1], qkv[2]);
}

Tensor Attention::operator()(const Tensor& x, TensorQueue& text) const {
  const std::vector<Tensor> kv = joint_.parts(text.take(joint_.product_count()));
  return attend((*to_q)(x), kv[0], kv[1]);
}

void Attention::append_text(const Tensor& context, std::vector<Tensor>& text) const {
  for (Tensor& product : joint_.products(context)) text.push_back(std::move(product));
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
  const Tensor h = tokens_of((*group_norm)(x));  // [B, L, C]
  const Shape& s = h.shape();
  const auto one_head = [&](const Tensor& y) { return reshape(y, Shape{s[0], 1, s[1], s[2]}); };
  return {.q = one_head((*to_q)(h)), .k = one_head((*to_k)(h)), .v = one_head((*to_v)(h))};
}

Tensor PixelAttention::add(const Tensor& x, const Tensor& mixed) const {
  const Shape& s = mixed.shape();
  return x + image_of_tokens((*to_out)[0](reshape(mixed, Shape{s[0], s[2], s[3]})), x);
}

Tensor PixelAttention::operator()(const Tensor& x) const {
  const Heads all = heads(x);
  return add(x, has_channels_last(x) ? attend_wide(all.q, all.k, all.v)
                                     : scaled_dot_product_attention(all.q, all.k, all.v, {.whole = true}));
}

}  // namespace gabbro::diffusion
