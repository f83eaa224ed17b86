#include "src/models/llm/mixers/latent_attention.h"

#include "gabbro/ops/experts.h"
#include "src/models/weights/cut_tensors.h"
#include "src/models/weights/tensor_shard.h"

namespace gabbro::llm {

LatentAttention::LatentAttention(const DecoderConfig& config, const LatentSizes& sizes, Rope rope,
                                 WeightSource& weights, const std::string& prefix)
    : config_(config), sizes_(sizes), rope_(std::move(rope)) {
  const int64_t c = config_.shape.embedding, heads = config_.shape.heads, rank = sizes_.rank;
  const int64_t of_query = sizes_.unrotated + sizes_.rotated, queries = heads * of_query;
  // Devices of a tensor split have heads, and all latents, which each head reads.
  const TensorShard* const shard = weights.shard();
  heads_ = shard != nullptr ? shard->part_of_heads(heads, heads).heads : IndexRange{0, heads};
  const IndexRanges query_rows = {elements_of(heads_, of_query)};
  if (sizes_.q_rank == 0) {
    attn_q_ = linear_rows(weights, prefix + "attn_q", {queries, c}, query_rows);
  } else {
    attn_q_a_ = linear_rows(weights, prefix + "attn_q_a", {sizes_.q_rank, c}, {{0, sizes_.q_rank}});
    attn_q_a_norm_ = load_norm(config_, weights, prefix + "attn_q_a_norm", sizes_.q_rank);
    attn_q_b_ = linear_rows(weights, prefix + "attn_q_b", {queries, sizes_.q_rank}, query_rows);
  }
  const int64_t latents = rank + sizes_.rotated;
  attn_kv_a_mqa_ = linear_rows(weights, prefix + "attn_kv_a_mqa", {latents, c}, {{0, latents}});
  attn_kv_a_norm_ = load_norm(config_, weights, prefix + "attn_kv_a_norm", rank);
  // Files of llama.cpp from before April 2025 have both in one matrix, as transformers has.
  const std::string early = prefix + "attn_kv_b.weight";
  const bool together = weights.has(early);
  const int64_t stored = sizes_.unrotated + sizes_.value;
  attn_k_b_ = weights.heads(together ? early : prefix + "attn_k_b.weight",
                            {.heads = heads,
                             .rows = rank,
                             .columns = sizes_.unrotated,
                             .stored = stored,
                             .transposed = true,
                             .head_range = heads_},
                            together);
  attn_v_b_ = weights.heads(together ? early : prefix + "attn_v_b.weight",
                            {.heads = heads,
                             .rows = sizes_.value,
                             .columns = rank,
                             .first = sizes_.unrotated,
                             .stored = stored,
                             .head_range = heads_},
                            together);
  attn_output_ =
      linear_columns(weights, prefix + "attn_output", {c, heads * sizes_.value}, {elements_of(heads_, sizes_.value)});
}

nn::CacheLayer LatentAttention::cache() const {
  return {.heads = 1, .dimension = sizes_.rank + sizes_.rotated, .kind = nn::CacheKind::kLatent};
}

// Each head with its matrix: x [T, H, K], matrices [H·N, K] -> [T, H, N].
Tensor LatentAttention::by_head(const Tensor& x, const Tensor& matrices) const {
  const int64_t heads = heads_.count;
  const Tensor numbers = reshape(iota(x.device(), heads, DType::i32), Shape{1, heads});
  return expert_linear(x, matrices, broadcast_to(numbers, Shape{x.shape()[0], heads}), heads);
}

Tensor LatentAttention::operator()(const Tensor& h, const MixerStep& at) const {
  const TokenPositions places = at.places();
  const int64_t tokens = h.shape()[0], heads = heads_.count, n = sizes_.unrotated, r = sizes_.rotated;
  const Tensor flat =
      sizes_.q_rank == 0 ? (*attn_q_)(h) : (*attn_q_b_)(normalized(config_, attn_q_a_norm_, (*attn_q_a_)(h)));
  const Tensor q = reshape(flat, Shape{tokens, heads, n + r});  // [T, H, N + R]
  const Tensor kv = (*attn_kv_a_mqa_)(h);                       // [T, rank + R]
  const auto rotated = [&](const Tensor& x) {
    return rope(x, places.positions, rope_.inverse_frequencies, rope_.options);
  };
  const Tensor latent = normalized(config_, attn_kv_a_norm_, slice(kv, 1, 0, sizes_.rank));  // [T, rank]
  const Tensor k_pe = rotated(reshape(slice(kv, 1, sizes_.rank, r), Shape{tokens, 1, r}));   // [T, 1, R]
  const Tensor latents = concat({latent, reshape(k_pe, Shape{tokens, r})}, 1);               // [T, rank + R]
  const Tensor& copies = at.step.copies.rows;
  const LatentLayer& before = at.cache.latents(at.layer);
  const LatentLayer cache = copies.defined() ? latent_write(before, gather(latents, copies), at.copies())
                                             : latent_write(before, latents, places);
  const Tensor absorbed = by_head(slice(q, 2, 0, n), attn_k_b_);             // [T, H, rank]
  const Tensor queries = concat({absorbed, rotated(slice(q, 2, n, r))}, 2);  // [T, H, rank + R]
  Tensor mixed = latent_attention(queries, cache, places, {.scale = config_.attention_scale, .values = sizes_.rank});
  if (at.rows.defined()) mixed = gather(mixed, at.rows);  // [R, H, rank]
  const Tensor values = by_head(mixed, attn_v_b_);        // [R, H, V]
  return (*attn_output_)(reshape(values, Shape{values.shape()[0], heads * sizes_.value}));
}

}  // namespace gabbro::llm
