// Writing keys and values into the paged cache.
#include "src/ops/kv_type.h"
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

Written write(const Tensor& cache, const Tensor& scales, const Tensor& x, const TokenPositions& places, bool keys) {
  std::vector<Tensor> inputs{cache, x, places.page_table, places.sequence, places.positions};
  if (scales.defined()) inputs.push_back(scales);
  std::vector<Tensor> outputs = record_all(kKvWrite, std::move(inputs), {{"keys", int64_t{keys}}});
  return {.cache = outputs[0], .scales = scales.defined() ? outputs[1] : Tensor()};
}

constexpr std::initializer_list<DType> kElements = {DType::f32, DType::bf16, DType::f16, DType::i8, DType::u8};

// The scales of i8 and u8, in blocks of a head's dimension.
void require_blocks(const char* op, const char* what, const Tensor& elements, int64_t dimension) {
  if (has_kv_scales(elements.dtype()) && dimension % kKvBlock != 0) {
    throw bad_input("[{}] {} {} {} have no whole groups of {} elements", op, dtype_name(elements.dtype()), what,
                    elements.shape().to_string(), kKvBlock);
  }
}

}  // namespace

void require_cache(const char* op, const KvLayer& cache) {
  require_rank(op, cache.keys, 4);
  require_dtype(op, cache.keys, kElements);
  require_dtype(op, cache.values, {cache.keys.dtype()});
  const DType dtype = cache.keys.dtype();
  const Shape& k = cache.keys.shape();  // [pages, G, D, P]
  const auto wants = [&](const char* what, const Tensor& part, const Shape& shape) {
    if (part.defined() && part.shape() == shape) return;
    throw bad_input("[{}] a cache with keys {} {} wants {} {}, not {}", op, dtype_name(dtype), k.to_string(), what,
                    shape.to_string(), part.defined() ? part.shape().to_string() : "none");
  };
  wants("values", cache.values, Shape{k[0], k[1], k[3], k[2]});
  if (has_kv_scales(dtype)) {
    const int64_t dimension = plain_length(dtype, k[2]), blocks = dimension / kKvBlock;
    wants("key scales", cache.key_scales, Shape{k[0], k[1], blocks, k[3]});
    wants("value scales", cache.value_scales, Shape{k[0], k[1], k[3], blocks});
    require_dtype(op, cache.key_scales, {DType::f16});
    require_dtype(op, cache.value_scales, {DType::f16});
    require_blocks(op, "keys", cache.keys, dimension);
  } else if (cache.key_scales.defined() || cache.value_scales.defined()) {
    throw bad_input("[{}] a cache with keys {} {} has no scales", op, dtype_name(dtype), k.to_string());
  }
}

int64_t dimension_of(const KvLayer& cache) { return plain_length(cache.keys.dtype(), cache.keys.shape()[2]); }
int64_t dimension_of(const LatentLayer& cache) { return plain_length(cache.latents.dtype(), cache.latents.shape()[3]); }

void require_positions(const char* op, const TokenPositions& places, int64_t tokens) {
  require_dtype(op, places.positions, {DType::i32});
  require_dtype(op, places.sequence, {DType::i32});
  require_dtype(op, places.page_table, {DType::i32});
  require_rank(op, places.page_table, 2);
  if (!(places.positions.shape() == Shape{tokens}) || !(places.sequence.shape() == Shape{tokens})) {
    throw bad_input("[{}] positions {} and sequence {} for {} tokens", op, places.positions.shape().to_string(),
                    places.sequence.shape().to_string(), tokens);
  }
  if (places.page_table.shape().elements() == 0)
    throw bad_input("[{}] the page table {} has no pages", op, places.page_table.shape().to_string());
}

void require_latents(const char* op, const LatentLayer& cache) {
  require_rank(op, cache.latents, 4);
  require_dtype(op, cache.latents, kElements);
  const Shape& l = cache.latents.shape();  // [pages, 1, P, D]
  const bool scaled = has_kv_scales(cache.latents.dtype());
  const Shape scales{l[0], l[1], l[2], dimension_of(cache) / kKvBlock};
  const bool fits = scaled ? cache.scales.defined() && cache.scales.shape() == scales : !cache.scales.defined();
  if (l[1] != 1 || !fits) {
    throw bad_input("[{}] latents {} {} do not fit scales {}", op, dtype_name(cache.latents.dtype()), l.to_string(),
                    cache.scales.defined() ? cache.scales.shape().to_string() : "none");
  }
  require_blocks(op, "latents", cache.latents, dimension_of(cache));
  if (scaled) require_dtype(op, cache.scales, {DType::f16});
}

LatentLayer latent_write(const LatentLayer& cache, const Tensor& x, const TokenPositions& places) {
  require_latents("latent_write", cache);
  require_rank("latent_write", x, 2);
  require_dtype("latent_write", x, {DType::f32});
  require_positions("latent_write", places, x.shape()[0]);
  if (x.shape()[1] != dimension_of(cache)) {
    throw bad_input("[latent_write] latents {} do not fit a cache of {}", x.shape().to_string(),
                    cache.latents.shape().to_string());
  }
  const Tensor one_head = reshape(x, Shape{x.shape()[0], 1, x.shape()[1]});
  const Written written = write(cache.latents, cache.scales, one_head, places, false);
  return {.latents = written.cache, .scales = written.scales};
}

KvLayer kv_write(const KvLayer& cache, const Tensor& k, const Tensor& v, const TokenPositions& places) {
  require_cache("kv_write", cache);
  require_rank("kv_write", k, 3);
  require_dtype("kv_write", k, {DType::f32});
  require_dtype("kv_write", v, {DType::f32});
  require_positions("kv_write", places, k.shape()[0]);
  const Shape& keys = cache.keys.shape();
  if (!(k.shape() == v.shape()) || keys[1] != k.shape()[1] || dimension_of(cache) != k.shape()[2]) {
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
