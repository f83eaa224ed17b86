#include "src/models/llm/mixers/delta_net.h"

#include <fmt/format.h>

#include <cmath>

#include "src/models/llm/mixers/state_space.h"
#include "src/models/weights/cut_tensors.h"
#include "src/models/weights/tensor_shard.h"

namespace gabbro::llm {
namespace {

constexpr float kUnitEpsilon = 1e-6f;  // added to the sum of squares of a query or a key

float minus_exp(float x) { return -std::exp(x); }

// transformers stores for each head of keys: its query, its key, the values of its heads, and the gates of these.
int64_t rows_of_group(const DeltaNetSizes& s) { return 2 * s.keys + 2 * s.value_width() / s.groups; }

TransformersLayout qkv_layout(const DeltaNetSizes& s) {
  const int64_t of_group = rows_of_group(s), values = s.value_width() / s.groups;
  return {.row =
              [=](int64_t row) {
                const int64_t q = s.query_width();
                if (row < q) return row / s.keys * of_group + row % s.keys;
                if (row < 2 * q) return (row - q) / s.keys * of_group + s.keys + row % s.keys;
                const int64_t value = row - 2 * q;
                return value / values * of_group + 2 * s.keys + value % values;
              },
          .trailing_rows = s.value_width()};
}

TransformersLayout gate_layout(const DeltaNetSizes& s) {
  const int64_t of_group = rows_of_group(s), values = s.value_width() / s.groups;
  return {.row = [=](int64_t row) { return row / values * of_group + 2 * s.keys + values + row % values; },
          .trailing_rows = s.convolved()};
}

// Qwen 3.5 has separate matrices for all of these; transformers has the heads in the order of their groups.
class TiledHeads {
 public:
  explicit TiledHeads(const DeltaNetSizes& sizes) : s_(sizes) {}

  int64_t head(int64_t h) const { return h % s_.groups * (s_.heads / s_.groups) + h / s_.groups; }
  int64_t value(int64_t i) const { return head(i / s_.values) * s_.values + i % s_.values; }
  int64_t channel(int64_t i) const {  // of the convolution
    const int64_t before = 2 * s_.query_width();
    return i < before ? i : before + value(i - before);
  }

 private:
  DeltaNetSizes s_;
};

// The groups of one device of a tensor split, or a part of the heads of one group.
struct OwnHeads {
  OwnHeads(const DeltaNetSizes& sizes, const TensorShard* shard) : s(sizes), per_group(s.heads / s.groups) {
    if (shard == nullptr) {
      groups = {0, s.groups};
      of_group = {0, per_group};
      return;
    }
    const HeadRange part = shard->part_of_heads(s.heads, s.groups);
    groups = part.kv_heads;
    of_group = {part.heads.first - groups.first * per_group, part.heads.count / groups.count};
  }

  // Heads in the order of the matrices' rows.
  IndexRanges heads() const {
    IndexRanges ranges;
    if (!s.tiled) {
      for (int64_t g = groups.first; g < groups.first + groups.count; ++g)
        ranges.push_back({g * per_group + of_group.first, of_group.count});
      return ranges;
    }
    for (int64_t i = of_group.first; i < of_group.first + of_group.count; ++i)
      ranges.push_back({i * s.groups + groups.first, groups.count});
    return ranges;
  }
  IndexRanges values(int64_t before = 0) const {
    IndexRanges ranges = heads();
    for (IndexRange& range : ranges) range = elements_of(range, s.values, before);
    return ranges;
  }
  IndexRanges convolved() const {
    IndexRanges ranges = values(2 * s.query_width());
    const IndexRange keys = elements_of(groups, s.keys);
    ranges.insert(ranges.begin(), {keys, elements_of(keys, 1, s.query_width())});
    return ranges;
  }
  // Rows of matrices that have for each group `before` rows, and two parts with `of_head` rows of each head.
  IndexRanges by_group(int64_t before, int64_t of_head) const {
    const int64_t part = per_group * of_head, all = before + 2 * part;
    const IndexRange own = elements_of(of_group, of_head);
    IndexRanges ranges;
    for (int64_t g = groups.first; g < groups.first + groups.count; ++g) {
      if (before > 0) ranges.push_back({g * all, before});
      ranges.push_back(elements_of(own, 1, g * all + before));
      ranges.push_back(elements_of(own, 1, g * all + before + part));
    }
    return ranges;
  }

  const DeltaNetSizes& s;
  int64_t per_group;
  IndexRange groups, of_group;
};

}  // namespace

DeltaNetSizes read_delta_net(const ConfigReader& fields) {
  constexpr FieldName kHeads{"ssm.time_step_rank", "linear_num_value_heads"};
  constexpr FieldName kGroups{"ssm.group_count", "linear_num_key_heads"}, kInner{"ssm.inner_size", nullptr};
  DeltaNetSizes sizes;
  sizes.taps = fields.size_or({"ssm.conv_kernel", "linear_conv_kernel_dim"}, 4, 2, 8);
  sizes.heads = fields.size_or(kHeads, 32, 1, 1 << 14);
  sizes.groups = fields.size_or(kGroups, 16, 1, sizes.heads);
  sizes.keys = fields.size_or({"ssm.state_size", "linear_key_head_dim"}, 128, 1, 512);
  if (sizes.heads % sizes.groups != 0)
    fields.refuse(kGroups, fmt::format("is {}, which does not divide the {} heads", sizes.groups, sizes.heads));
  if (fields.is_hugging_face()) {
    sizes.values = fields.size_or({nullptr, "linear_value_head_dim"}, 128, 1, 4096);
    return sizes;
  }
  const int64_t inner = fields.size_or(kInner, sizes.heads * sizes.keys, 1, 1 << 22);
  if (inner % sizes.heads != 0)
    fields.refuse(kInner, fmt::format("is {}, which the {} heads do not divide", inner, sizes.heads));
  sizes.values = inner / sizes.heads;
  return sizes;
}

void write_delta_net(const DeltaNetSizes& sizes, GgufFields& fields) {
  fields.size("ssm.conv_kernel", sizes.taps);
  fields.size("ssm.state_size", sizes.keys);
  fields.size("ssm.group_count", sizes.groups);
  fields.size("ssm.time_step_rank", sizes.heads);
  fields.size("ssm.inner_size", sizes.value_width());
}

DeltaNet::DeltaNet(const DecoderConfig& config, const DeltaNetSizes& sizes, WeightSource& weights,
                   const std::string& prefix)
    : epsilon_(config.norm_epsilon), sizes_(sizes) {
  const int64_t c = config.shape.embedding, inner = sizes.value_width(), convolved = sizes.convolved();
  const TiledHeads theirs(sizes);
  const OwnHeads own(sizes, weights.shard());
  TransformersLayout of_heads, of_qkv = qkv_layout(sizes), of_gate = gate_layout(sizes), of_out;
  TransformersLayout of_conv{.shape = {convolved, 1, sizes.taps}};
  if (sizes.tiled) {
    of_qkv = of_gate = {};
    if (sizes.heads != sizes.groups) {
      of_heads.row = [theirs](int64_t row) { return theirs.head(row); };
      of_qkv.row = [theirs](int64_t row) { return theirs.channel(row); };
      of_gate.row = [theirs](int64_t row) { return theirs.value(row); };
      of_out.column = [theirs](int64_t column) { return theirs.value(column); };
      of_conv.element = [theirs, taps = sizes.taps](int64_t i) { return theirs.channel(i / taps) * taps + i % taps; };
    }
  }
  if (weights.has(prefix + "ssm_in.weight")) {
    ssm_in_ =
        linear_rows(weights, prefix + "ssm_in", {convolved + inner, c}, own.by_group(2 * sizes.keys, sizes.values));
  } else {
    attn_qkv_ = linear_rows(weights, prefix + "attn_qkv", {convolved, c}, own.convolved(), of_qkv);
    attn_gate_ = linear_rows(weights, prefix + "attn_gate", {inner, c}, own.values(), of_gate);
  }
  if (sizes.tiled) {
    ssm_beta_ = linear_rows(weights, prefix + "ssm_beta", {sizes.heads, c}, own.heads(), of_heads);
    ssm_alpha_ = linear_rows(weights, prefix + "ssm_alpha", {sizes.heads, c}, own.heads(), of_heads);
  } else {
    ssm_ba_ = linear_rows(weights, prefix + "ssm_ba", {2 * sizes.heads, c}, own.by_group(0, 1));
  }
  ssm_conv1d_ = tensor_rows(weights, prefix + "ssm_conv1d.weight", {convolved, sizes.taps}, own.convolved(), of_conv);
  ssm_dt_b_ = tensor_rows(weights, prefix + "ssm_dt.bias", {sizes.heads}, own.heads(), of_heads);
  of_heads.value = minus_exp;
  ssm_a_ = tensor_rows(weights, prefix + "ssm_a", {sizes.heads}, own.heads(), of_heads);
  ssm_norm_ = weights.vector(prefix + "ssm_norm.weight", sizes.values);
  const auto keys = static_cast<size_t>(sizes.keys);
  k_scale_ = weights.upload(std::vector<float>(keys, 1 / std::sqrt(static_cast<float>(keys))));
  q_scale_ = weights.upload(std::vector<float>(keys, 1 / static_cast<float>(keys)));
  ssm_out_ = linear_columns(weights, prefix + "ssm_out", {c, inner}, own.values(), of_out);
  sizes_.groups = own.groups.count;
  sizes_.heads = own.groups.count * own.of_group.count;
}

nn::CacheLayer DeltaNet::cache() const {
  return {.kind = nn::CacheKind::kState,
          .states = {Shape{sizes_.convolved(), sizes_.taps - 1}, Shape{sizes_.heads, sizes_.values, sizes_.keys}}};
}

DeltaNet::Inputs DeltaNet::projected(const Tensor& h) const {
  const int64_t tokens = h.shape()[0], groups = sizes_.groups, n = sizes_.keys, of_group = sizes_.heads / groups;
  const int64_t inner = sizes_.value_width(), values = inner / groups;
  Inputs in;
  if (sizes_.tiled) {
    in.beta = (*ssm_beta_)(h);
    in.alpha = (*ssm_alpha_)(h);
  } else {
    const Tensor ba = reshape((*ssm_ba_)(h), Shape{tokens, groups, 2 * of_group});
    in.beta = reshape(slice(ba, 2, 0, of_group), Shape{tokens, sizes_.heads});
    in.alpha = reshape(slice(ba, 2, of_group, of_group), Shape{tokens, sizes_.heads});
  }
  if (ssm_in_ == nullptr) {
    in.qkv = (*attn_qkv_)(h);
    in.z = (*attn_gate_)(h);
    return in;
  }
  const Tensor all = reshape((*ssm_in_)(h), Shape{tokens, groups, rows_of_group(sizes_)});
  const auto part = [&](int64_t first, int64_t count) {
    return reshape(slice(all, 2, first, count), Shape{tokens, groups * count});
  };
  in.qkv = concat({part(0, n), part(n, n), part(2 * n, values)}, 1);
  in.z = part(2 * n + values, values);
  return in;
}

// Heads of length 1, times weight · sqrt(N): x [T, G·N] -> [T, G, N], or for all heads [T, H, N].
Tensor DeltaNet::unit_heads(const Tensor& x, const Tensor& weight) const {
  const Tensor heads = reshape(x, Shape{x.shape()[0], sizes_.groups, sizes_.keys});
  const Tensor unit = rms_norm(heads, weight, kUnitEpsilon / static_cast<float>(sizes_.keys));
  if (!sizes_.tiled || sizes_.heads == sizes_.groups) return unit;
  const int64_t tokens = x.shape()[0], g = sizes_.groups, n = sizes_.keys, times = sizes_.heads / g;
  return reshape(broadcast_to(reshape(unit, Shape{tokens, 1, g, n}), Shape{tokens, times, g, n}),
                 Shape{tokens, sizes_.heads, n});
}

Tensor DeltaNet::operator()(const Tensor& h, const MixerStep& at) const {
  const TokenPositions& places = at.step.places;
  const std::vector<Tensor>& states = at.cache.states(at.layer);
  const int64_t tokens = h.shape()[0], q = sizes_.query_width(), inner = sizes_.value_width();
  const Inputs in = projected(h);
  const Tensor qkv = silu(causal_conv(in.qkv, ssm_conv1d_, Tensor(), states[0], places).y);  // [T, 2·G·N + H·P]
  const Recurrence rule =
      gated_delta_rule({.q = unit_heads(slice(qkv, 1, 0, q), q_scale_),
                        .k = unit_heads(slice(qkv, 1, q, q), k_scale_),
                        .v = reshape(slice(qkv, 1, 2 * q, inner), Shape{tokens, sizes_.heads, sizes_.values}),
                        .decay = softplus(in.alpha + ssm_dt_b_) * ssm_a_,
                        .beta = sigmoid(in.beta),
                        .state = states[1]},
                       places);
  Tensor y = rule.y, z = in.z;
  if (at.rows.defined()) {
    y = gather(y, at.rows);
    z = gather(z, at.rows);
  }
  y = reshape(rms_norm(y, ssm_norm_, epsilon_), z.shape());  // [R, H·P]
  return (*ssm_out_)(y * silu(z));
}

}  // namespace gabbro::llm
