#include "src/models/llm/mixers/state_space.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace gabbro::llm {
namespace {

float negative_exp(float x) { return -std::exp(x); }

// transformers stores the logarithm of -a, and convolutions as [channels, 1, taps].
TransformersLayout decay_layout(std::vector<int64_t> shape) {
  return {.shape = std::move(shape), .value = negative_exp};
}
TransformersLayout conv_layout(int64_t channels, int64_t taps) { return {.shape = {channels, 1, taps}}; }

Tensor load_bias(WeightSource& weights, const std::string& name, int64_t length) {
  return weights.has(name) ? weights.vector(name, length) : Tensor();
}

Tensor ones(WeightSource& weights, int64_t length) {
  return weights.upload(std::vector<float>(static_cast<size_t>(length), 1.0f));
}

}  // namespace

void read_step_bounds(const ConfigReader& fields, StateSpaceSizes& sizes) {
  constexpr FieldName kLimit{nullptr, "time_step_limit"};
  constexpr FieldName kShortest{"ssm.time_step_min", nullptr}, kLongest{"ssm.time_step_max", nullptr};
  constexpr float kMost = std::numeric_limits<float>::infinity();
  if (fields.is_hugging_face()) {
    if (fields.is_null(kLimit)) fields.refuse(kLimit, "is null");
    if (!fields.has(kLimit)) return;
    const std::vector<float> limit = fields.numbers(kLimit, 2, 0.0f, kMost);
    sizes.shortest = limit[0];
    sizes.longest = limit[1];
  } else {
    sizes.shortest = fields.number_or(kShortest, 0.0f, 0.0f, kMost);
    sizes.longest = fields.number_or(kLongest, kMost, 0.0f, kMost);
  }
  if (sizes.shortest > sizes.longest)
    fields.refuse(fields.is_hugging_face() ? kLimit : kShortest,
                  fmt::format("is {} to {}, expected bounds in order", sizes.shortest, sizes.longest));
}

void require_silu(const ConfigReader& fields, FieldName name) {
  if (const std::string activation = fields.text_or(name, "silu"); activation != "silu" && activation != "swish")
    fields.refuse(name, fmt::format("is '{}', expected silu", activation));
}

void check_heads(const ConfigReader& fields, FieldName heads, FieldName groups, const StateSpaceSizes& sizes) {
  if (sizes.inner % sizes.rank != 0)
    fields.refuse(heads, fmt::format("is {}, which does not divide the inner size {}", sizes.rank, sizes.inner));
  if (sizes.rank % sizes.groups != 0)
    fields.refuse(groups, fmt::format("is {}, which does not divide the {} heads", sizes.groups, sizes.rank));
}

void check_width(const ConfigReader& fields, FieldName width, const StateSpaceSizes& sizes) {
  const int64_t given = fields.size_or(width, sizes.head_rows(), 1, 1 << 20);
  if (given != sizes.head_rows())
    fields.refuse(width, fmt::format("is {}, the other sizes ask for {}", given, sizes.head_rows()));
}

StateSpaceSizes read_mamba2_sizes(const ConfigReader& fields, FieldName inner, int64_t embedding) {
  constexpr FieldName kHeads{"ssm.time_step_rank", "mamba_n_heads"}, kGroups{"ssm.group_count", "mamba_n_groups"};
  StateSpaceSizes sizes;
  const int64_t expand = fields.size_or({nullptr, "mamba_expand"}, 2, 1, 64);
  sizes.inner = fields.size_or(inner, expand * embedding, 1, 1 << 22);
  sizes.taps = fields.size_or({"ssm.conv_kernel", "mamba_d_conv"}, 4, 2, 8);
  sizes.states = fields.size_or({"ssm.state_size", "mamba_d_state"}, 256, 1, 512);
  sizes.rank = fields.size_or(kHeads, 128, 1, 1 << 16);
  sizes.groups = fields.size_or(kGroups, 1, 1, sizes.rank);
  check_heads(fields, kHeads, kGroups, sizes);
  check_width(fields, {nullptr, "mamba_d_head"}, sizes);
  read_step_bounds(fields, sizes);
  return sizes;
}

void write_state_space(const StateSpaceSizes& sizes, GgufFields& fields) {
  fields.size("ssm.conv_kernel", sizes.taps);
  fields.size("ssm.inner_size", sizes.inner);
  fields.size("ssm.state_size", sizes.states);
  fields.size("ssm.time_step_rank", sizes.rank);
  fields.size("ssm.group_count", sizes.groups);
  if (sizes.shortest > 0) fields.number("ssm.time_step_min", sizes.shortest);
  if (std::isfinite(sizes.longest)) fields.number("ssm.time_step_max", sizes.longest);
}

Tensor softplus(const Tensor& x) {
  const Tensor zero = scalar(x.device(), 0);
  return maximum(x, zero) + log1p(exp(-abs(x)));
}

Mamba::Mamba(const DecoderConfig& config, const StateSpaceSizes& sizes, WeightSource& weights,
             const std::string& prefix)
    : sizes_(sizes) {
  const int64_t c = config.shape.embedding, i = sizes.inner, n = sizes.states;
  ssm_in_ = weights.linear(prefix + "ssm_in", {2 * i, c});
  ssm_conv1d_ = weights.tensor(prefix + "ssm_conv1d.weight", {i, sizes.taps}, conv_layout(i, sizes.taps));
  ssm_conv1d_b_ = load_bias(weights, prefix + "ssm_conv1d.bias", i);
  ssm_x_ = weights.linear(prefix + "ssm_x", {sizes.rank + 2 * n, i});
  ssm_dt_ = weights.linear(prefix + "ssm_dt", {i, sizes.rank});
  ssm_a_ = weights.tensor(prefix + "ssm_a", {i, n}, decay_layout({}));
  ssm_d_ = weights.vector(prefix + "ssm_d", i);
  ssm_out_ = weights.linear(prefix + "ssm_out", {c, i});
  // Falcon Mamba's norms have no weights, Jamba's do.
  const auto norm = [&](const std::string& name, int64_t length) {
    if (weights.has(name + ".weight")) return weights.vector(name + ".weight", length);
    return sizes.normalized ? ones(weights, length) : Tensor();
  };
  ssm_dt_norm_ = norm(prefix + "ssm_dt_norm", sizes.rank);
  ssm_b_norm_ = norm(prefix + "ssm_b_norm", n);
  ssm_c_norm_ = norm(prefix + "ssm_c_norm", n);
}

nn::CacheLayer Mamba::cache() const {
  return {.kind = nn::CacheKind::kState,
          .states = {Shape{sizes_.inner, sizes_.taps - 1}, Shape{sizes_.inner, 1, sizes_.states}}};
}

Tensor Mamba::operator()(const Tensor& h, const MixerStep& at) const {
  const TokenPositions& places = at.step.places;
  const std::vector<Tensor>& states = at.cache.states(at.layer);
  const int64_t tokens = h.shape()[0], i = sizes_.inner, n = sizes_.states, rank = sizes_.rank;
  const Tensor xz = (*ssm_in_)(h);                                                                          // [T, 2·I]
  const Tensor x = silu(causal_conv(slice(xz, 1, 0, i), ssm_conv1d_, ssm_conv1d_b_, states[0], places).y);  // [T, I]
  const Tensor all = (*ssm_x_)(x);  // [T, rank + 2·N]
  const auto part = [&](int64_t first, int64_t count, const Tensor& weight) {
    const Tensor y = slice(all, 1, first, count);
    return weight.defined() ? rms_norm(y, weight, sizes_.norm_epsilon) : y;
  };
  const Tensor dt = softplus((*ssm_dt_)(part(0, rank, ssm_dt_norm_)));  // [T, I]
  const auto grouped = [&](const Tensor& y) { return reshape(y, Shape{tokens, 1, n}); };
  const Recurrence scan = selective_scan({.x = reshape(x, Shape{tokens, i, 1}),
                                          .dt = dt,
                                          .a = ssm_a_,
                                          .b = grouped(part(rank, n, ssm_b_norm_)),
                                          .c = grouped(part(rank + n, n, ssm_c_norm_)),
                                          .state = states[1]},
                                         places);
  Tensor y = (reshape(scan.y, Shape{tokens, i}) + x * ssm_d_) * silu(slice(xz, 1, i, i));  // [T, I]
  if (at.rows.defined()) y = gather(y, at.rows);
  return (*ssm_out_)(y);
}

Mamba2::Mamba2(const DecoderConfig& config, const StateSpaceSizes& sizes, WeightSource& weights,
               const std::string& prefix)
    : epsilon_(config.norm_epsilon), sizes_(sizes) {
  const int64_t c = config.shape.embedding, i = sizes.inner, heads = sizes.rank, of_group = i / sizes.groups;
  ssm_in_ = weights.linear(prefix + "ssm_in", {i + convolved() + heads, c}, {.factor = sizes.in_factor});
  ssm_conv1d_ =
      weights.tensor(prefix + "ssm_conv1d.weight", {convolved(), sizes.taps}, conv_layout(convolved(), sizes.taps));
  ssm_conv1d_b_ = load_bias(weights, prefix + "ssm_conv1d.bias", convolved());
  ssm_dt_b_ = weights.vector(prefix + "ssm_dt.bias", heads);
  ssm_a_ = weights.tensor(prefix + "ssm_a", {heads, 1}, decay_layout({heads}));
  ssm_d_ = weights.tensor(prefix + "ssm_d", {heads, 1}, {.shape = {heads}});
  if (const std::string norm = prefix + "ssm_norm.weight"; weights.has(norm))
    ssm_norm_ = weights.tensor(norm, {sizes.groups, of_group}, {.shape = {i}});
  ones_ = ones(weights, of_group);
  ssm_out_ = weights.linear(prefix + "ssm_out", {c, i}, with_factor(sizes.out_factor));
}

nn::CacheLayer Mamba2::cache() const {
  return {.kind = nn::CacheKind::kState,
          .states = {Shape{convolved(), sizes_.taps - 1}, Shape{sizes_.rank, sizes_.head_rows(), sizes_.states}}};
}

Tensor Mamba2::operator()(const Tensor& h, const MixerStep& at) const {
  const TokenPositions& places = at.step.places;
  const std::vector<Tensor>& states = at.cache.states(at.layer);
  const int64_t tokens = h.shape()[0], i = sizes_.inner, n = sizes_.states, g = sizes_.groups, heads = sizes_.rank;
  const Tensor all = (*ssm_in_)(h);  // [T, I + (I + 2·G·N) + H]
  const Recurrence conv = causal_conv(slice(all, 1, i, convolved()), ssm_conv1d_, ssm_conv1d_b_, states[0], places);
  const Tensor xbc = silu(conv.y);                                          // [T, I + 2·G·N]
  Tensor dt = softplus(slice(all, 1, i + convolved(), heads) + ssm_dt_b_);  // [T, H]
  if (sizes_.shortest > 0 || std::isfinite(sizes_.longest)) dt = clamp(dt, sizes_.shortest, sizes_.longest);
  const Tensor x = reshape(slice(xbc, 1, 0, i), Shape{tokens, heads, i / heads});  // [T, H, P]
  const auto grouped = [&](int64_t first) { return reshape(slice(xbc, 1, first, g * n), Shape{tokens, g, n}); };
  const Recurrence scan = selective_scan(
      {.x = x, .dt = dt, .a = ssm_a_, .b = grouped(i), .c = grouped(i + g * n), .state = states[1]}, places);
  const Tensor gate = silu(slice(all, 1, 0, i));              // [T, I]
  Tensor y = reshape(scan.y + x * ssm_d_, Shape{tokens, i});  // [T, I]
  if (!sizes_.gate_last || !ssm_norm_.defined()) y = y * gate;
  if (at.rows.defined()) y = gather(y, at.rows);
  if (!ssm_norm_.defined()) return (*ssm_out_)(y);
  const Shape groups{y.shape()[0], g, i / g};
  y = reshape(rms_norm(reshape(y, groups), ones_, epsilon_) * ssm_norm_, y.shape());
  if (sizes_.gate_last) y = y * (at.rows.defined() ? gather(gate, at.rows) : gate);
  return (*ssm_out_)(y);
}

}  // namespace gabbro::llm
