// Causal attention over the paged KV cache (Vaswani et al. 2017; grouped queries: Ainslie et al. 2023).
#include <limits>

#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// The pages of each token's sequence, one after the other, as f32: from cache [pages, G, A, B] and page_table rows
// [T, M] -> [T, M, G, A, B].
Tensor pages_of_tokens(const Tensor& cache, const Tensor& scales, const Tensor& rows, int scaled_axis) {
  const int64_t tokens = rows.shape()[0];
  const int64_t pages = rows.shape()[1];
  const auto take = [&](const Tensor& from) {
    const Shape& s = from.shape();
    const Tensor flat = gather(from, reshape(rows, Shape{tokens * pages}));  // [T·M, G, A, B]
    return reshape(cast(flat, DType::f32), Shape{tokens, pages, s[1], s[2], s[3]});
  };
  Tensor values = take(cache);
  if (!scales.defined()) return values;
  const Tensor s = take(scales);  // one scale for 32 elements along `scaled_axis`
  const Shape& v = values.shape();
  const int64_t groups = s.shape()[scaled_axis];
  const bool last = scaled_axis == 4;
  const Shape split = last ? Shape{v[0] * v[1], v[2], v[3], groups, v[4] / groups}
                           : Shape{v[0] * v[1], v[2], groups, v[3] / groups, v[4]};
  const Shape scale = last ? Shape{v[0] * v[1], v[2], v[3], groups, 1} : Shape{v[0] * v[1], v[2], groups, 1, v[4]};
  return reshape(reshape(values, split) * reshape(s, scale), v);
}

}  // namespace

// Inputs: q, keys, values, page_table, sequence, positions(, key_scales, value_scales).
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
          const bool scaled = a.size() == 8;
          const Tensor rows = gather(a[3], a[4]);  // [T, M]: the page table row of each token
          const Tensor k = pages_of_tokens(a[1], scaled ? a[6] : Tensor(), rows, 3);  // [T, M, G, D, P]
          const Tensor v = pages_of_tokens(a[2], scaled ? a[7] : Tensor(), rows, 4);  // [T, M, G, P, D]
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
          scores = where(visible, scores, scalar(device, -std::numeric_limits<double>::infinity()));
          // Places that no token was written to may hold anything, NaN too, which no weight of 0 would take out.
          const Tensor written = where(reshape(visible, Shape{tokens, 1, length, 1}), values, scalar(device, 0));
          return std::vector{reshape(matmul(softmax(scores), written), q.shape())};
        },
};

Tensor attention(const Tensor& q, const KvLayer& cache, const TokenPositions& places, const AttentionOptions& options) {
  require_dtype("attention", q, {DType::f32});
  require_rank("attention", q, 3);
  require_cache("attention", cache);
  require_positions("attention", places, q.shape()[0]);
  const Shape& keys = cache.keys.shape();
  if (keys[1] == 0 || q.shape()[1] % keys[1] != 0 || q.shape()[2] != keys[2]) {
    throw bad_input("[attention] queries {} do not fit a cache of {}", q.shape().to_string(), keys.to_string());
  }
  std::vector<Tensor> inputs{q, cache.keys, cache.values, places.page_table, places.sequence, places.positions};
  if (cache.key_scales.defined()) {
    inputs.push_back(cache.key_scales);
    inputs.push_back(cache.value_scales);
  }
  return record(kAttention, std::move(inputs),
                {{"scale", static_cast<double>(options.scale)},
                 {"window", options.window},
                 {"softcap", static_cast<double>(options.softcap)}});
}

}  // namespace gabbro
