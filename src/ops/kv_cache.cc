// Writing keys and values into the paged cache.
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

// Inputs: cache, x [T, G, D], page_table, sequence, positions(, scale). A primitive: it writes the cache in place.
const Op kKvWrite = {
    .name = "kv_write",
    .infer =
        [](const Args& a) {
          std::vector<TensorSpec> outputs{a[0].spec()};
          if (a.size() == 6) outputs.push_back(a[5].spec());
          return outputs;
        },
    .in_place = {0, 5},
};

namespace {

struct Written {
  Tensor cache;
  Tensor scales;
};

Written write(const Tensor& cache, const Tensor& scales, const Tensor& x, const TokenPlaces& places, bool keys) {
  std::vector<Tensor> inputs{cache, x, places.page_table, places.sequence, places.positions};
  if (scales.defined()) inputs.push_back(scales);
  std::vector<Tensor> outputs = record_all(kKvWrite, std::move(inputs), {{"keys", int64_t{keys}}});
  return {.cache = outputs[0], .scales = scales.defined() ? outputs[1] : Tensor()};
}

}  // namespace

KvLayer kv_write(const KvLayer& cache, const Tensor& k, const Tensor& v, const TokenPlaces& places) {
  require_rank("kv_write", k, 3);
  require_rank("kv_write", cache.keys, 4);
  require_rank("kv_write", cache.values, 4);
  require_dtype("kv_write", k, {DType::f32});
  require_dtype("kv_write", v, {DType::f32});
  require_dtype("kv_write", cache.keys, {DType::f16, DType::i8});
  const Shape& keys = cache.keys.shape();
  if (!(k.shape() == v.shape()) || keys[1] != k.shape()[1] || keys[2] != k.shape()[2]) {
    throw bad_input("[kv_write] keys {} and values {} do not fit a cache of {}", k.shape().to_string(),
                    v.shape().to_string(), keys.to_string());
  }
  const Written written_keys = write(cache.keys, cache.key_scales, k, places, true);
  const Written written_values = write(cache.values, cache.value_scales, v, places, false);
  return {.keys = written_keys.cache,
          .values = written_values.cache,
          .key_scales = written_keys.scales,
          .value_scales = written_values.scales};
}

}  // namespace gabbro
