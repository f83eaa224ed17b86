// Attention over f32 tensors without a mask, softmax(q·kᵀ · scale)·v, that never writes the scores to memory (Dao
// 2023): a block of queries meets the keys in blocks, whose scores stay in the L2 cache; maxima and sums of the rows so
// far rescale what was added before (Milakov and Gimelshein 2018). A row with a NaN gives NaN, and so does one that
// begins with a block of keys whose scores are all -inf.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "backends/common/request.h"
#include "backends/cpu/kernels/matmul/matrix_packs.h"
#include "backends/cpu/kernels/rows/rows.h"
#include "backends/cpu/kernels/tensor_kernels.h"
#include "backends/cpu/simd/math.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// 240 KiB of scores; 240 rows are whole tiles of every instruction set.
constexpr int64_t kQueryBlock = 240, kKeyBlock = 256;
// Rows of scores are not a power of two apart, which would share the sets of the L1 cache.
constexpr int64_t kScoreStride = kKeyBlock + 16;

// Strides of [B, heads, rows, D] with contiguous rows.
struct HeadStrides {
  int64_t batch = 0, head = 0, row = 0;
};

struct DenseShape {
  int64_t batches = 0, heads = 0, groups = 0, queries = 0, keys = 0, dim = 0;
  HeadStrides q, k, v, y;
  float scale = 1;
};

class DenseAttention : public Kernel {
 public:
  DenseAttention(const DenseShape& shape, int workers) : s_(shape), width_(round_up(shape.dim, kLanes)) {
    const int64_t rows = std::min(kQueryBlock, s_.queries), keys = std::min(kKeyBlock, s_.keys);
    queries_floats_ = packed_rows_floats(rows, s_.dim);
    keys_floats_ = packed_columns_floats(keys, s_.dim);
    values_floats_ = packed_columns_floats(s_.dim, keys);
    worker_floats_ = round_up(queries_floats_ + keys_floats_ + values_floats_ + rows * (kScoreStride + width_ + 2), 16);
    scratch_bytes = static_cast<size_t>(workers * worker_floats_) * sizeof(float);
    implementation = "attention dense f32";
    const double pairs = static_cast<double>(s_.batches * s_.heads) * static_cast<double>(s_.queries * s_.keys);
    flops = pairs * (4.0 * static_cast<double>(s_.dim) + 10);
    bytes = 8.0 * static_cast<double>(s_.batches * s_.heads * (s_.queries + s_.keys) * s_.dim);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    float* const scratch = static_cast<float*>(launch.scratch) + worker.index() * worker_floats_;
    const int64_t blocks = (s_.queries + kQueryBlock - 1) / kQueryBlock;
    worker.parallel_for(s_.batches * s_.heads * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item)
        attend(launch, item / blocks, item % blocks * kQueryBlock, scratch);
    });
  }

 private:
  // The buffers of a worker.
  struct Block {
    float *queries, *keys, *values;  // packed
    float *scores, *sums;            // [rows][kScoreStride], [rows][width_]
    float *maxima, *weights;         // of each row so far: the largest score, the sum of the exponentials
    int64_t rows;
  };

  static const float* at(const void* data, const HeadStrides& strides, int64_t batch, int64_t head, int64_t row) {
    return static_cast<const float*>(data) + batch * strides.batch + head * strides.head + row * strides.row;
  }

  Block block_in(float* scratch, int64_t rows) const {
    Block b{.queries = scratch, .rows = rows};
    b.keys = b.queries + queries_floats_;
    b.values = b.keys + keys_floats_;
    b.scores = b.values + values_floats_;
    b.sums = b.scores + rows * kScoreStride;
    b.maxima = b.sums + rows * width_;
    b.weights = b.maxima + rows;
    return b;
  }

  // A block of queries of a head.
  void attend(const abi::Launch& launch, int64_t item, int64_t first, float* scratch) const {
    const int64_t batch = item / s_.heads, head = item % s_.heads, group = head / (s_.heads / s_.groups);
    const Block b = block_in(scratch, std::min(kQueryBlock, s_.queries - first));
    pack_rows({b.rows, s_.dim, s_.q.row, 1}, at(launch.inputs[0].data, s_.q, batch, head, first), b.queries);
    for (int64_t i = 0, count = packed_rows_floats(b.rows, s_.dim) - kPackSlack; i < count; ++i)
      b.queries[i] *= s_.scale;
    std::fill_n(b.sums, b.rows * width_, 0.0f);
    std::fill_n(b.maxima, b.rows, -std::numeric_limits<float>::infinity());
    std::fill_n(b.weights, b.rows, 0.0f);
    for (int64_t key = 0; key < s_.keys; key += kKeyBlock) {
      add_keys(b, at(launch.inputs[1].data, s_.k, batch, group, key),
               at(launch.inputs[2].data, s_.v, batch, group, key), std::min(kKeyBlock, s_.keys - key));
    }
    auto* const y = const_cast<float*>(at(launch.outputs[0].data, s_.y, batch, head, first));
    for (int64_t r = 0; r < b.rows; ++r) {
      const F32 inverse = splat(1 / b.weights[r]);
      for_vectors(s_.dim, [&](int64_t i, int count, int) {
        store_some(y + r * s_.y.row + i, load(b.sums + r * width_ + i) * inverse, count);
      });
    }
  }

  void add_keys(const Block& b, const float* k, const float* v, int64_t count) const {
    pack_columns({s_.dim, count, 1, s_.k.row}, k, b.keys);
    const PackedTile scores{.a = b.queries, .out = b.scores, .out_stride = kScoreStride, .accumulate = false};
    product_block(scores, kMatrixRows * s_.dim, b.rows, round_up(count, kLanes), s_.dim, [&](int64_t j) {
      return PanelSource{b.keys + j * s_.dim, s_.dim};
    });
    for (int64_t r = 0; r < b.rows; ++r) add_row(b, r, count);
    pack_columns({count, s_.dim, s_.v.row, 1}, v, b.values);
    const ProductTile sums{.a = b.scores,
                           .row_stride = kScoreStride,
                           .step_stride = 1,
                           .out = b.sums,
                           .out_stride = width_,
                           .accumulate = true};
    product_block(sums, kMatrixRows * kScoreStride, b.rows, width_, count, [&](int64_t j) {
      return PanelSource{b.values + j * count, count};
    });
  }

  // Scores of a row become exp(score - maximum), and what was added before is rescaled.
  void add_row(const Block& b, int64_t r, int64_t count) const {
    float* const row = b.scores + r * kScoreStride;
    const float lowest = -std::numeric_limits<float>::infinity();
    F32 highest[4] = {splat(b.maxima[r]), splat(lowest), splat(lowest), splat(lowest)};
    for_vectors(count, [&](int64_t i, int lanes, int n) {
      highest[n] = max(only_first(load(row + i), lanes, lowest), highest[n]);
    });
    const float maximum = reduce_max(max(max(highest[0], highest[1]), max(highest[2], highest[3])));
    F32 total[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
    for_vectors(count, [&](int64_t i, int lanes, int n) {
      const F32 e = exp_of_nonpositive(load(row + i) - splat(maximum));
      store(row + i, e);
      total[n] += only_first(e, lanes, 0);
    });
    const float sum = reduce_sum((total[0] + total[1]) + (total[2] + total[3]));
    const float before = maximum == b.maxima[r] ? 1 : std::exp(b.maxima[r] - maximum);
    b.maxima[r] = maximum;
    b.weights[r] = b.weights[r] * before + sum;
    if (before == 1) return;
    float* const sums = b.sums + r * width_;
    for (int64_t i = 0; i < width_; i += kLanes) store(sums + i, load(sums + i) * splat(before));
  }

  DenseShape s_;
  int64_t width_;  // of a row of sums: whole vectors
  int64_t queries_floats_, keys_floats_, values_floats_, worker_floats_;
};

// Strides of f32 [B, heads, rows, D] whose rows are contiguous.
bool read_head_strides(const abi::TensorView& x, HeadStrides& strides) {
  if (x.rank != 4 || !is_plain(x, DType::f32) || (x.strides[3] != 1 && x.shape[3] != 1)) return false;
  strides = {.batch = x.strides[0], .head = x.strides[1], .row = x.strides[2]};
  return true;
}

}  // namespace

std::unique_ptr<Kernel> make_dense_attention(const abi::KernelRequest& request, const MakeContext& context) {
  if (!has_operands(request, 3, 1) || integer_attribute(request, "causal", 0) != 0) return nullptr;
  const abi::TensorView &q = request.inputs[0], &k = request.inputs[1], &v = request.inputs[2], &y = request.outputs[0];
  DenseShape s;
  if (!read_head_strides(q, s.q) || !read_head_strides(k, s.k) || !read_head_strides(v, s.v)) return nullptr;
  s.batches = q.shape[0], s.heads = q.shape[1], s.queries = q.shape[2], s.dim = q.shape[3];
  s.groups = k.shape[1], s.keys = k.shape[2];
  if (std::min({s.batches, s.heads, s.groups, s.queries, s.keys, s.dim}) == 0) return nullptr;
  if (s.heads % s.groups != 0 || k.shape[0] != s.batches || k.shape[3] != s.dim || !same_shape(k, v)) return nullptr;
  const bool rows_first = request.op == std::string_view("attention_rows_first");
  const int64_t outer = rows_first ? s.queries : s.heads, inner = rows_first ? s.heads : s.queries;
  if (!has_shape(y, DType::f32, {s.batches, outer, inner, s.dim})) return nullptr;
  s.y = {.batch = outer * inner * s.dim,
         .head = rows_first ? s.dim : s.queries * s.dim,
         .row = rows_first ? s.heads * s.dim : s.dim};
  s.scale = static_cast<float>(real_attribute(request, "scale", 0));
  return std::make_unique<DenseAttention>(s, context.workers);
}

}  // namespace gabbro::cpu::GABBRO_ISA
