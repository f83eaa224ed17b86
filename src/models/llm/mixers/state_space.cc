#include "src/models/llm/mixers/state_space.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "src/models/weights/cut_tensors.h"
#include "src/models/weights/weight_memory.h"

namespace gabbro::llm {
namespace {

float negative_exp(float x) { return -std::exp(x); }

// transformers stores the logarithm of -a, and convolutions as [channels, 1, taps].
TransformersLayout decay_layout(std::vector<int64_t> shape) {
  return {.shape = std::move(shape), .value = negative_exp};
}
TransformersLayout conv_layout(int64_t channels, int64_t taps) { return {.shape = {channels, 1, taps}}; }

Tensor load_bias(WeightSource& weights, const std::string& name, int64_t length, const IndexRanges& own) {
  return weights.has(name) ? tensor_rows(weights, name, {length}, own) : Tensor();
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
    : sizes_(sizes), shard_(weights.shard()) {
  const int64_t c = config.shape.embedding, i = sizes.inner, n = sizes.states;
  const IndexRanges own = {shard_ != nullptr ? shard_->part(i, kChannelUnit) : IndexRange{0, i}};
  sizes_.inner = own.front().count;
  ssm_in_ = linear_rows(weights, prefix + "ssm_in", {2 * i, c}, {own.front(), elements_of(own.front(), 1, i)});
  ssm_conv1d_ = tensor_rows(weights, prefix + "ssm_conv1d.weight", {i, sizes.taps}, own, conv_layout(i, sizes.taps));
  ssm_conv1d_b_ = load_bias(weights, prefix + "ssm_conv1d.bias", i, own);
  ssm_x_ = linear_columns(weights, prefix + "ssm_x", {sizes.rank + 2 * n, i}, own);
  ssm_dt_ = linear_rows(weights, prefix + "ssm_dt", {i, sizes.rank}, own);
  ssm_a_ = tensor_rows(weights, prefix + "ssm_a", {i, n}, own, decay_layout({}));
  ssm_d_ = tensor_rows(weights, prefix + "ssm_d", {i}, own);
  ssm_out_ = linear_columns(weights, prefix + "ssm_out", {c, i}, own);
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
  Tensor all = (*ssm_x_)(x);  // [T, rank + 2·N]
  if (shard_ != nullptr) {
    const Tensor needed[] = {x, xz};
    all = (*shard_->sum)(all, needed);
  }
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
    : epsilon_(config.norm_epsilon), sizes_(sizes), shard_(weights.shard()) {
  const int64_t c = config.shape.embedding, i = sizes.inner, heads = sizes.rank, p = sizes.head_rows();
  const int64_t grouped = sizes.groups * sizes.states, all_convolved = convolved();
  const HeadRange own = shard_ != nullptr ? shard_->part_of_heads(heads, sizes.groups)
                                          : HeadRange{.heads = {0, heads}, .kv_heads = {0, sizes.groups}};
  const IndexRange channels = elements_of(own.heads, p);
  // Rows of channels, b and c after `before` others.
  const auto convolved_rows = [&](int64_t before) {
    return IndexRanges{elements_of(channels, 1, before), elements_of(own.kv_heads, sizes.states, before + i),
                       elements_of(own.kv_heads, sizes.states, before + i + grouped)};
  };
  IndexRanges in_rows = convolved_rows(i);
  in_rows.insert(in_rows.begin(), channels);  // of the gate
  in_rows.push_back(elements_of(own.heads, 1, i + all_convolved));
  ssm_in_ =
      linear_rows(weights, prefix + "ssm_in", {i + all_convolved + heads, c}, in_rows, {.factor = sizes.in_factor});
  ssm_conv1d_ = tensor_rows(weights, prefix + "ssm_conv1d.weight", {all_convolved, sizes.taps}, convolved_rows(0),
                            conv_layout(all_convolved, sizes.taps));
  ssm_conv1d_b_ = load_bias(weights, prefix + "ssm_conv1d.bias", all_convolved, convolved_rows(0));
  ssm_dt_b_ = tensor_rows(weights, prefix + "ssm_dt.bias", {heads}, {own.heads});
  ssm_a_ = tensor_rows(weights, prefix + "ssm_a", {heads, 1}, {own.heads}, decay_layout({heads}));
  ssm_d_ = tensor_rows(weights, prefix + "ssm_d", {heads, 1}, {own.heads}, {.shape = {heads}});
  ssm_out_ = linear_columns(weights, prefix + "ssm_out", {c, i}, {channels}, with_factor(sizes.out_factor));
  sizes_.inner = channels.count;
  sizes_.rank = own.heads.count;
  sizes_.groups = own.kv_heads.count;
  ones_ = ones(weights, sizes_.inner / sizes_.groups);
  if (const std::string norm = prefix + "ssm_norm.weight"; weights.has(norm))
    load_norm_of_groups(weights, norm, sizes, own);
}

void Mamba2::load_norm_of_groups(WeightSource& weights, const std::string& name, const StateSpaceSizes& all,
                                 const HeadRange& own) {
  const int64_t width = all.inner / all.groups;
  const std::vector<int64_t> shape{all.groups, width};
  const TransformersLayout theirs{.shape = {all.inner}};
  if (shard_ == nullptr || std::ssize(shard_->shares) <= all.groups) {
    ssm_norm_ = tensor_rows(weights, name, shape, {own.kv_heads}, theirs);
    return;
  }
  const std::vector<float> values = weights.values(name, shape, theirs);
  const IndexRange channels = elements_of(own.heads, all.head_rows());
  const auto some = std::span(values).subspan(static_cast<size_t>(channels.first), static_cast<size_t>(channels.count));
  if (weights.memory() != nullptr) ssm_norm_ = weights.memory()->tensor(some, Shape{1, channels.count});
  std::vector<float> is_own(static_cast<size_t>(all.groups));
  is_own[static_cast<size_t>(own.kv_heads.first)] = 1;
  own_group_ = weights.upload(is_own);
  group_width_ = width;
}

nn::CacheLayer Mamba2::cache() const {
  return {.kind = nn::CacheKind::kState,
          .states = {Shape{convolved(), sizes_.taps - 1}, Shape{sizes_.rank, sizes_.head_rows(), sizes_.states}}};
}

// Groups with a root mean square of 1: y [R, G, I/G]. `gate` is read afterward, if it is defined.
Tensor Mamba2::unit_groups(const Tensor& y, const Tensor& gate) const {
  if (group_width_ == 0) return rms_norm(y, ones_, epsilon_);
  std::vector<Tensor> needed{y};
  if (gate.defined()) needed.push_back(gate);
  const Tensor squares = reshape(sum(square(y), {-1}), Shape{y.shape()[0], 1});
  const Tensor of_groups = (*shard_->sum)(squares * own_group_, needed);  // [R, all groups]
  const Tensor mean = sum(of_groups * own_group_, {-1}) / scalar(y.device(), static_cast<double>(group_width_));
  const Tensor factors = rsqrt(mean + scalar(y.device(), static_cast<double>(epsilon_)));  // [R]
  return y * reshape(factors, Shape{y.shape()[0], 1, 1});
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
  const Tensor after = sizes_.gate_last ? (at.rows.defined() ? gather(gate, at.rows) : gate) : Tensor();
  y = reshape(unit_groups(reshape(y, groups), after) * ssm_norm_, y.shape());
  if (after.defined()) y = y * after;
  return (*ssm_out_)(y);
}

}  // namespace gabbro::llm
