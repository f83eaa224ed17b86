// Causal attention over the paged KV cache (Vaswani et al. 2017; grouped queries: Ainslie et al. 2023), or over one of
// latents (DeepSeek-V2, arXiv 2405.04434).
#include <limits>

#include "src/ops/kv_type.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// The pages of each token's sequence, consecutive, as f32: from cache [pages, G, A, B], whose `axis` is D,
// and page_table rows [T, M] -> [T, M, G, A, B].
Tensor pages_of_tokens(const Tensor& cache, const Tensor& scales, const Tensor& rows, int axis) {
  const int64_t tokens = rows.shape()[0], pages = rows.shape()[1];
  const Tensor flat = reshape(rows, Shape{tokens * pages});
  const KvNumbers taken{.elements = gather(cache, flat), .scales = scales.defined() ? gather(scales, flat) : Tensor()};
  const Tensor values = kv_decode(taken, axis);  // [T·M, G, A, B]
  const Shape& v = values.shape();
  return reshape(values, Shape{tokens, pages, v[1], v[2], v[3]});
}

}  // namespace

// Inputs: q, keys, values, page_table, sequence, positions(, key_scales, value_scales)(, sinks).
const Op kAttention = {
    .name = "attention",
    .infer = [](const Args& a) { return result(a[0].shape(), DType::f32); },
    .compose =
        [](const Args& a) {
          const Tensor& q = a[0];  // [T, H, D]
          const auto device = q.device();
          const int64_t tokens = q.shape()[0];
          const int64_t dim = q.shape()[2];
          const int64_t groups = a[1].shape()[1];                    // G
          const int64_t shared = q.shape()[1] / groups;              // H/G query heads read one KV head
          const int64_t length = a[3].shape()[1] * a[1].shape()[3];  // S = M·P
          const bool scaled = has_kv_scales(a[1].dtype());
          const Tensor rows = gather(a[3], a[4]);  // [T, M]: the page table row of each token
          const Tensor k = pages_of_tokens(a[1], scaled ? a[6] : Tensor(), rows, 2);  // [T, M, G, D, P]
          const Tensor v = pages_of_tokens(a[2], scaled ? a[7] : Tensor(), rows, 3);  // [T, M, G, P, D]
          const Tensor keys = reshape(permute(k, {0, 2, 3, 1, 4}), Shape{tokens, groups, dim, length});
          const Tensor values = reshape(permute(v, {0, 2, 1, 3, 4}), Shape{tokens, groups, length, dim});
          Tensor scores = matmul(reshape(q, Shape{tokens, groups, shared, dim}), keys);  // [T, G, H/G, S]
          scores = scores * scalar(device, a.attributes.real("scale"));
          const double softcap = a.attributes.real("softcap");
          if (softcap != 0) scores = tanh(scores * scalar(device, 1 / softcap)) * scalar(device, softcap);
          const Tensor position = reshape(a[5], Shape{tokens, 1, 1, 1});
          const Tensor key = reshape(iota(device, length, DType::i32), Shape{1, 1, 1, length});
          Tensor visible = less_equal(key, position);
          const int64_t window = a.attributes.integer("window");
          if (window > 0)
            visible =
                logical_and(visible, less(position, key + scalar(device, static_cast<double>(window), DType::i32)));
          if (const int64_t chunk = a.attributes.integer("chunk"); chunk > 0) {
            const Tensor size = scalar(device, static_cast<double>(chunk), DType::i32);
            visible = logical_and(visible, equal(floor_divide(key, size), floor_divide(position, size)));
          }
          scores = where(visible, scores, scalar(device, -std::numeric_limits<double>::infinity()));
          if (a.attributes.integer("sinks") != 0) {
            const Tensor sinks =
                broadcast_to(reshape(a[a.size() - 1], Shape{1, groups, shared, 1}), Shape{tokens, groups, shared, 1});
            scores = slice(softmax(concat({scores, sinks}, -1)), 3, 0, length);
          } else {
            scores = softmax(scores);
          }
          // Places that no token was written to may hold anything, NaN too, which no weight of 0 would take out.
          const Tensor written = where(reshape(visible, Shape{tokens, 1, length, 1}), values, scalar(device, 0));
          return std::vector{reshape(matmul(scores, written), q.shape())};
        },
};

// Inputs as of attention, the latents for keys and for values: q, latents, latents, page_table, sequence, positions
// (, scales, scales).
const Op kLatentAttention = {
    .name = "latent_attention",
    .infer =
        [](const Args& a) {
          const Shape& q = a[0].shape();
          return result(Shape{q[0], q[1], a.attributes.integer("values")}, DType::f32);
        },
    .compose =
        [](const Args& a) {
          const Tensor& q = a[0];  // [T, H, D]
          const auto device = q.device();
          const int64_t tokens = q.shape()[0], dim = q.shape()[2];
          const int64_t length = a[3].shape()[1] * a[1].shape()[2];  // S = M·P
          const bool scaled = has_kv_scales(a[1].dtype());
          const Tensor rows = gather(a[3], a[4]);                                         // [T, M]
          const Tensor pages = pages_of_tokens(a[1], scaled ? a[6] : Tensor(), rows, 3);  // [T, M, 1, P, D]
          const Tensor all = reshape(pages, Shape{tokens, length, dim});
          const Tensor position = reshape(a[5], Shape{tokens, 1, 1});
          const Tensor key = reshape(iota(device, length, DType::i32), Shape{1, 1, length});
          const Tensor visible = less_equal(key, position);  // [T, 1, S]
          // Places that no token was written to may hold anything, NaN too.
          const Tensor written = where(reshape(visible, Shape{tokens, length, 1}), all, scalar(device, 0));
          Tensor scores = matmul(q, permute(written, {0, 2, 1})) * scalar(device, a.attributes.real("scale"));
          scores = where(visible, scores, scalar(device, -std::numeric_limits<double>::infinity()));
          const Tensor values = slice(written, 2, 0, a.attributes.integer("values"));  // [T, S, V]
          return std::vector{matmul(softmax(scores), values)};
        },
};

Tensor latent_attention(const Tensor& q, const LatentLayer& cache, const TokenPositions& places,
                        const LatentAttentionOptions& options) {
  require_dtype("latent_attention", q, {DType::f32});
  require_rank("latent_attention", q, 3);
  require_latents("latent_attention", cache);
  require_positions("latent_attention", places, q.shape()[0]);
  const Shape& latents = cache.latents.shape();
  if (q.shape()[2] != dimension_of(cache) || options.values < 1 || options.values > q.shape()[2]) {
    throw bad_input("[latent_attention] queries {} and {} values do not fit latents {}", q.shape().to_string(),
                    options.values, latents.to_string());
  }
  std::vector<Tensor> inputs{q, cache.latents, cache.latents, places.page_table, places.sequence, places.positions};
  if (cache.scales.defined()) inputs.insert(inputs.end(), {cache.scales, cache.scales});
  return record(kLatentAttention, std::move(inputs),
                {{"scale", static_cast<double>(options.scale)}, {"values", options.values}});
}

Tensor attention(const Tensor& q, const KvLayer& cache, const TokenPositions& places, const AttentionOptions& options) {
  require_dtype("attention", q, {DType::f32});
  require_rank("attention", q, 3);
  require_cache("attention", cache);
  require_positions("attention", places, q.shape()[0]);
  const Shape& keys = cache.keys.shape();
  if (keys[1] == 0 || q.shape()[1] % keys[1] != 0 || q.shape()[2] != dimension_of(cache)) {
    throw bad_input("[attention] queries {} do not fit a cache of {}", q.shape().to_string(), keys.to_string());
  }
  std::vector<Tensor> inputs{q, cache.keys, cache.values, places.page_table, places.sequence, places.positions};
  if (cache.key_scales.defined()) {
    inputs.push_back(cache.key_scales);
    inputs.push_back(cache.value_scales);
  }
  const bool sinks = options.sinks.defined();
  if (sinks) {
    require_dtype("attention", options.sinks, {DType::f32});
    if (!(options.sinks.shape() == Shape{q.shape()[1]}))
      throw bad_input("[attention] sinks {} for {} heads", options.sinks.shape().to_string(), q.shape()[1]);
    inputs.push_back(options.sinks);
  }
  return record(kAttention, std::move(inputs),
                {{"scale", static_cast<double>(options.scale)},
                 {"window", options.window},
                 {"chunk", options.chunk},
                 {"separate", int64_t{places.separate}},
                 {"sinks", int64_t{sinks}},
                 {"softcap", static_cast<double>(options.softcap)}});
}

}  // namespace gabbro
