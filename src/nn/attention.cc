#include "gabbro/nn/attention.h"

#include <cmath>
#include <limits>

#include "gabbro/nn/dropout.h"
#include "gabbro/nn/init.h"
#include "gabbro/ops/products.h"
#include "src/base/error.h"
#include "src/graph/history.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro::nn {
namespace {

// Nothing is masked in `count` more keys.
Tensor with_more_keys(const Tensor& mask, int64_t count) {
  if (!mask.defined() || count == 0) return mask;
  std::vector<std::pair<int64_t, int64_t>> widths(static_cast<size_t>(mask.shape().rank()), {0, 0});
  widths.back() = {0, count};
  return pad(mask, widths);
}

// The summand of scores [B, H, L, S] of this dtype; undefined if there is none.
class ScoreMask {
 public:
  explicit ScoreMask(DType dtype) : dtype_(dtype) {}

  void add(const Tensor& mask, const Shape& shape) {
    const Tensor shaped = reshape(mask, shape);
    if (mask.dtype() == DType::boolean) return hide(shaped);
    require_dtype("multihead_attention", mask, kFloating);
    added_ = added_.defined() ? added_ + cast(shaped, dtype_) : cast(shaped, dtype_);
  }
  void hide(const Tensor& hidden) { hidden_ = hidden_.defined() ? logical_or(hidden_, hidden) : hidden; }

  Tensor result() const {
    if (!hidden_.defined()) return added_;
    const Tensor never = full(hidden_.device(), Shape{}, -std::numeric_limits<double>::infinity(), dtype_);
    return where(hidden_, never, added_.defined() ? added_ : weak(never, 0));
  }

 private:
  DType dtype_;
  Tensor hidden_, added_;
};

}  // namespace

MultiheadAttention::MultiheadAttention(const Factory& make, const MultiheadAttentionOptions& o)
    : options_(o), generator_(make.generator) {
  require_probability("multihead_attention", o.dropout);
  const int64_t e = o.embed_dim, kdim = o.kdim.value_or(e), vdim = o.vdim.value_or(e);
  if (e < 1 || o.num_heads < 1 || e % o.num_heads != 0)
    throw bad_input("[multihead_attention] {} features do not divide into {} heads", e, o.num_heads);
  if (e > int64_t{1} << 31) throw bad_input("[multihead_attention] {} features: 2147483648 are the most", e);
  if (kdim == e && vdim == e) {
    add_parameter(make, "in_proj_weight", in_proj_weight, init::xavier_uniform(make, Shape{3 * e, e}));
  } else {
    add_parameter(make, "q_proj_weight", q_proj_weight, init::xavier_uniform(make, Shape{e, e}));
    add_parameter(make, "k_proj_weight", k_proj_weight, init::xavier_uniform(make, Shape{e, kdim}));
    add_parameter(make, "v_proj_weight", v_proj_weight, init::xavier_uniform(make, Shape{e, vdim}));
  }
  if (o.bias) add_parameter(make, "in_proj_bias", in_proj_bias, init::zeros(make, Shape{3 * e}));
  if (o.add_bias_kv) {
    add_parameter(make, "bias_k", bias_k, init::xavier_normal(make, Shape{1, 1, e}));
    add_parameter(make, "bias_v", bias_v, init::xavier_normal(make, Shape{1, 1, e}));
  }
  out_proj =
      std::make_shared<Linear>(make.at("out_proj"), LinearOptions{.in_features = e, .out_features = e, .bias = o.bias});
  if (o.bias && make.weights == nullptr) {
    out_proj->bias = init::zeros(make, Shape{e});
    require_gradient(out_proj->bias);
  }
  add_module("out_proj", out_proj);
}

void MultiheadAttention::set_options(const MultiheadAttentionOptions& o) {
  require_probability("multihead_attention", o.dropout);
  if (o.num_heads < 1 || options_.embed_dim % o.num_heads != 0)
    throw bad_input("[multihead_attention] {} features do not divide into {} heads", options_.embed_dim, o.num_heads);
  options_.num_heads = o.num_heads;
  options_.dropout = o.dropout;
  options_.add_zero_attn = o.add_zero_attn;
  options_.batch_first = o.batch_first;
}

// Each [B, length, E].
std::vector<Tensor> MultiheadAttention::projected(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const int64_t e = options_.embed_dim;
  const bool same = query.shared_state() == key.shared_state() && key.shared_state() == value.shared_state();
  if (in_proj_weight.defined() && same) return split(linear(query, in_proj_weight, in_proj_bias), 3, -1);
  const Tensor* weights[] = {&q_proj_weight, &k_proj_weight, &v_proj_weight};
  const Tensor* inputs[] = {&query, &key, &value};
  std::vector<Tensor> results;
  for (int64_t i = 0; i < 3; ++i) {
    const Tensor weight = in_proj_weight.defined() ? slice(in_proj_weight, 0, i * e, e) : *weights[i];
    const Tensor bias = in_proj_bias.defined() ? slice(in_proj_bias, 0, i * e, e) : Tensor();
    results.push_back(linear(*inputs[i], weight, bias));
  }
  return results;
}

// [B, L, E] as [B, H, L, D].
Tensor MultiheadAttention::heads(const Tensor& x) const {
  const int64_t d = options_.embed_dim / options_.num_heads;
  return permute(reshape(x, Shape{x.shape()[0], x.shape()[1], options_.num_heads, d}), {0, 2, 1, 3});
}

MultiheadAttention::Result MultiheadAttention::attend(const Tensor& query, Tensor key, Tensor value,
                                                      const AttentionMasks& masks, Weights weights) {
  const int64_t batch = query.shape()[0], length = query.shape()[1];
  std::vector<Tensor> p = projected(query, key, value);
  key = p[1];
  value = p[2];
  int64_t more = 0;
  const auto append = [&](const Tensor& to_key, const Tensor& to_value) {
    const Shape one{batch, 1, options_.embed_dim};
    key = concat({key, broadcast_to(to_key, one)}, 1);
    value = concat({value, broadcast_to(to_value, one)}, 1);
    ++more;
  };
  if (bias_k.defined()) append(bias_k, bias_v);
  if (options_.add_zero_attn) {
    const Tensor zero = full(key.device(), Shape{1, 1, 1}, 0, key.dtype());
    append(zero, zero);
  }
  const Tensor q = heads(p[0]), k = heads(key), v = heads(value);  // [B, H, L, D], [B, H, S, D]
  const int64_t keys = k.shape()[2];
  ScoreMask mask(q.dtype());
  if (masks.keys.defined()) mask.add(with_more_keys(masks.keys, more), Shape{batch, 1, 1, keys});
  if (masks.attention.defined()) {
    const bool each = masks.attention.shape().rank() == 3;
    const Tensor all = with_more_keys(masks.attention, more);
    mask.add(all, each ? Shape{batch, options_.num_heads, length, keys} : Shape{1, 1, length, keys});
  }
  if (masks.causal) {
    const Tensor before = tri(q.device(), length, keys - more, 0, DType::boolean);
    mask.hide(with_more_keys(logical_not(before), more));
  }
  const bool drops = is_training() && options_.dropout > 0;
  Result result;
  Tensor mixed;  // [B, H, L, D]
  if (weights == Weights::kNone && !drops) {
    mixed = scaled_dot_product_attention(q, k, v, {.mask = mask.result()});
  } else {
    const double scale = 1 / std::sqrt(static_cast<double>(q.shape()[3]));
    Tensor scores = matmul(q * scale, matrix_transpose(k));  // [B, H, L, S]
    if (const Tensor added = mask.result(); added.defined()) scores = scores + added;
    Tensor shares = softmax(scores);
    if (drops) shares = dropout(shares, options_.dropout, true, *generator_, shares.shape());
    mixed = matmul(shares, v);
    if (weights == Weights::kMean) result.weights = mean(shares, 1);
    if (weights == Weights::kHeads) result.weights = shares;
  }
  const Tensor joined = reshape(permute(mixed, {0, 2, 1, 3}), Shape{batch, length, options_.embed_dim});
  result.output = (*out_proj)(joined);
  return result;
}

MultiheadAttention::Result MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                                          const AttentionMasks& masks, Weights weights) {
  for (const Tensor* x : {&query, &key, &value}) require_plain("multihead_attention", *x);
  const int rank = query.shape().rank();
  if ((rank != 2 && rank != 3) || key.shape().rank() != rank || value.shape().rank() != rank) {
    throw bad_input("[multihead_attention] query {}, key {} and value {} do not fit", query.shape().to_string(),
                    key.shape().to_string(), value.shape().to_string());
  }
  // [B, L, E]; of one tensor given twice still one.
  const auto batch_first = [&](const Tensor& x) {
    if (rank == 2) return expand_dims(x, 0);
    return options_.batch_first ? x : swapaxes(x, 0, 1);
  };
  const Tensor q = batch_first(query);
  const Tensor k = key.shared_state() == query.shared_state() ? q : batch_first(key);
  const Tensor v = value.shared_state() == key.shared_state() ? k : batch_first(value);
  if (k.shape()[0] != q.shape()[0] || v.shape()[0] != q.shape()[0] || k.shape()[1] != v.shape()[1]) {
    throw bad_input("[multihead_attention] query {}, key {} and value {} do not fit", query.shape().to_string(),
                    key.shape().to_string(), value.shape().to_string());
  }
  Result result = attend(q, k, v, masks, weights);
  if (rank == 2) {
    result.output = squeeze(result.output, 0);
    if (result.weights.defined()) result.weights = squeeze(result.weights, 0);
  } else if (!options_.batch_first) {
    result.output = swapaxes(result.output, 0, 1);
  }
  return result;
}

}  // namespace gabbro::nn
