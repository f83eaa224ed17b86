#include "src/models/encoder/batch.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "gabbro/device.h"
#include "gabbro/ops/products.h"

namespace gabbro::encoder {
namespace {

Tensor upload_numbers(Device& device, const std::vector<int32_t>& values) {
  return device.upload(DType::i32, Shape{std::ssize(values)}, values.data());
}

// [T, n, D] -> [B, n, L, D]
Tensor in_grid(const EncoderBatch& batch, const Tensor& x) {
  const Tensor cells = batch.grid.defined() ? gather(x, batch.grid) : x;  // [B·L, n, D]
  const Shape& s = x.shape();
  return permute(reshape(cells, Shape{batch.texts(), batch.longest, s[1], s[2]}), {0, 2, 1, 3});
}

// [B, H, L, D] -> [T, H·D]
Tensor out_of_grid(const EncoderBatch& batch, const Tensor& x) {
  const Shape& s = x.shape();
  const Tensor rows = reshape(permute(x, {0, 2, 1, 3}), Shape{s[0] * s[2], s[1] * s[3]});
  return batch.cells.defined() ? gather(rows, batch.cells) : rows;
}

// Queries [first, end), which see keys [begin_key, end_key).
struct QueryRange {
  int64_t first, end, begin_key, end_key;
  int64_t queries() const { return end - first; }
  int64_t keys() const { return end_key - begin_key; }
};

Tensor distances(const DevicePointer& device, const QueryRange& range) {  // j - i, i32 [Q, K]
  const Tensor keys = iota(device, range.keys(), DType::i32, static_cast<double>(range.begin_key));
  const Tensor queries = iota(device, range.queries(), DType::i32, static_cast<double>(range.first));
  return reshape(keys, Shape{1, range.keys()}) - reshape(queries, Shape{range.queries(), 1});
}

// The numbers that are added to the scores by distance, [H, Q, K]; undefined: nothing.
Tensor bias_of(const EncoderBatch& batch, const EncoderAttention& options, const DevicePointer& device,
               const QueryRange& range) {
  if (options.slopes.defined()) {
    const Tensor far = cast(abs(distances(device, range)), DType::f32);
    return neg(reshape(options.slopes, Shape{options.slopes.shape()[0], 1, 1}) *
               reshape(far, Shape{1, range.queries(), range.keys()}));
  }
  if (!options.distance_bias.defined()) return {};
  const int64_t heads = options.distance_bias.shape()[1];
  const Tensor row =
      distances(device, range) + scalar(device, static_cast<double>(batch.longest - 1), DType::i32);  // [Q, K]
  const Tensor of_pairs =
      gather(options.distance_bias, reshape(row, Shape{range.queries() * range.keys()}));  // [Q·K, H]
  return permute(reshape(of_pairs, Shape{range.queries(), range.keys(), heads}), {2, 0, 1});
}

// The keys that are seen, bool, which broadcasts to [B, H, Q, K]; undefined: all.
Tensor seen_keys(const EncoderBatch& batch, const EncoderAttention& options, const DevicePointer& device,
                 const QueryRange& range) {
  Tensor seen;
  const auto only = [&](const Tensor& more) { seen = seen.defined() ? logical_and(seen, more) : more; };
  if (batch.occupied.defined()) only(slice(batch.occupied, 3, range.begin_key, range.keys()));
  const Shape pairs{1, 1, range.queries(), range.keys()};
  if (options.window > 0 && range.keys() > options.window) {
    const Tensor near =
        less_equal(abs(distances(device, range)), scalar(device, static_cast<double>(options.window), DType::i32));
    only(reshape(near, pairs));
  }
  if (options.causal) only(reshape(less_equal(distances(device, range), scalar(device, 0, DType::i32)), pairs));
  return seen;
}

Tensor mask_of(const EncoderBatch& batch, const EncoderAttention& options, const DevicePointer& device,
               const QueryRange& range) {
  const Tensor seen = seen_keys(batch, options, device, range), bias = bias_of(batch, options, device, range);
  if (!bias.defined()) return seen;
  const Tensor of_texts = reshape(bias, Shape{1, bias.shape()[0], bias.shape()[1], bias.shape()[2]});
  if (!seen.defined()) return of_texts;
  return where(seen, of_texts, scalar(device, -std::numeric_limits<double>::infinity()));
}

QueryRange range_of(const EncoderBatch& batch, const EncoderAttention& options, int64_t first, int64_t chunk) {
  QueryRange range{.first = first, .end = std::min(first + chunk, batch.longest), .begin_key = 0, .end_key = 0};
  range.end_key = options.causal ? range.end : batch.longest;
  if (options.window > 0) {
    range.begin_key = std::max<int64_t>(0, first - options.window);
    range.end_key = std::min(range.end_key, range.end + options.window);
  }
  return range;
}

}  // namespace

EncoderBatch make_batch(const DevicePointer& device, std::span<const EncoderText> texts) {
  EncoderBatch batch;
  for (const EncoderText& text : texts) {
    if (text.ids.empty()) throw std::logic_error("a text of a batch has no tokens");
    batch.lengths.push_back(std::ssize(text.ids));
    batch.prompts.push_back(text.prompt);
  }
  if (texts.empty()) throw std::logic_error("a batch has no texts");
  batch.longest = *std::ranges::max_element(batch.lengths);
  std::vector<int32_t> ids, positions, types, grid, cells;
  std::vector<uint8_t> occupied;
  for (size_t i = 0; i < texts.size(); ++i) {
    const EncoderText& text = texts[i];
    const auto before = static_cast<int32_t>(ids.size());
    const auto first_cell = static_cast<int32_t>(grid.size());
    for (int32_t t = 0; t < static_cast<int32_t>(batch.longest); ++t) {
      const bool is_token = t < std::ssize(text.ids);
      grid.push_back(is_token ? before + t : before);
      occupied.push_back(is_token);
      if (!is_token) continue;
      ids.push_back(text.ids[static_cast<size_t>(t)]);
      positions.push_back(t);
      types.push_back(text.types.empty() ? 0 : text.types[static_cast<size_t>(t)]);
      cells.push_back(first_cell + t);
    }
  }
  batch.tokens = std::ssize(ids);
  batch.ids = upload_numbers(*device, ids);
  batch.positions = upload_numbers(*device, positions);
  batch.types = upload_numbers(*device, types);
  if (batch.tokens == batch.texts() * batch.longest) return batch;
  batch.grid = upload_numbers(*device, grid);
  batch.cells = upload_numbers(*device, cells);
  batch.occupied = device->upload(DType::boolean, Shape{batch.texts(), 1, 1, batch.longest}, occupied.data());
  return batch;
}

int64_t query_chunk(const EncoderBatch& batch, int64_t heads) {
  constexpr int64_t kMostScores = (int64_t{256} << 20) / static_cast<int64_t>(sizeof(float));
  const int64_t of_query = batch.texts() * heads * batch.longest;
  return std::clamp<int64_t>(kMostScores / of_query, 1, batch.longest);
}

Tensor attend(const EncoderBatch& batch, const Tensor& q, const Tensor& k, const Tensor& v,
              const EncoderAttention& options) {
  const Tensor queries = in_grid(batch, q);                           // [B, H, L, D]
  const Tensor keys = in_grid(batch, k), values = in_grid(batch, v);  // [B, G, L, D]
  const int64_t whole = options.most_queries > 0 ? options.most_queries : query_chunk(batch, q.shape()[1]);
  // Local attention reads few keys where its queries are near each other.
  constexpr int64_t kLeastLocal = 64;
  const int64_t local = std::max(kLeastLocal, 2 * options.window);
  const int64_t chunk = options.window > 0 ? std::min(whole, local) : whole;
  std::vector<Tensor> mixed;
  for (int64_t first = 0; first < batch.longest; first += chunk) {
    const QueryRange range = range_of(batch, options, first, chunk);
    mixed.push_back(scaled_dot_product_attention(
        slice(queries, 2, range.first, range.queries()), slice(keys, 2, range.begin_key, range.keys()),
        slice(values, 2, range.begin_key, range.keys()),
        {.mask = mask_of(batch, options, q.device(), range), .scale = static_cast<double>(options.scale)}));
  }
  return out_of_grid(batch, mixed.size() == 1 ? mixed.front() : concat(mixed, 2));
}

}  // namespace gabbro::encoder
