// Causal attention over the paged KV cache, in the manner of FlashAttention-2 (Dao 2023): tiles of queries walk over
// tiles of keys with a running maximum and sum per row; no T × T matrix. All query heads of a KV head are rows of one
// tile, so that keys and values are read and converted once. Long contexts of few tokens are split among the workers
// and merged. `latent_attention` is the same with one KV head, whose values are the first elements of its keys.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/common/attention_request.h"
#include "backends/cpu/kernels/attention/kv_convert.h"
#include "backends/cpu/kernels/matmul/product_tile.h"
#include "backends/cpu/kernels/recurrence_kernels.h"
#include "backends/cpu/simd/math.h"
#include "src/base/round_up.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int kKeyTile = 64;  // keys at a time: with D = 128, K and V tiles of 32 KiB stay in the L2
constexpr int kKeyBlocks = kKeyTile / kLanes;
constexpr int kPanel = kTileVectors * kLanes;  // adjacent keys in the converted tile of K
constexpr int64_t kRowTarget = 48;             // query rows of a tile: converting K and V then costs a few percent
constexpr int64_t kSplitKeys = 256;            // a split of fewer keys costs more in merging than it saves
constexpr float kNoMaximum = -1e30f;           // of a row without keys; finite, so that differences are never NaN

// Constants of the request.
struct Plan {
  KvShape kv;
  int64_t tokens = 0;        // T
  int64_t heads = 0;         // H
  int64_t group = 0;         // H / G: query heads of a KV head
  bool latent = false;       // keys and values are the same, stored as values
  int64_t values = 0;        // elements of a value: D, or less of latents
  int64_t padded = 0;        // these rounded up to whole vectors
  int64_t value_stride = 0;  // of the converted tile
  int64_t token_stride = 0;  // of q
  int64_t head_stride = 0;
  int64_t tile_tokens = 0;
  int64_t max_splits = 1;
  int64_t window = 0;
  int64_t chunk = 0;
  bool sinks = false;
  float scale = 1;
  float softcap = 0;

  int64_t tiles() const { return (tokens + tile_tokens - 1) / tile_tokens; }
  int64_t rows() const { return round_up(tile_tokens * group, kTileRows); }
};

// One worker's memory, in floats.
struct Workspace {
  float* q;        // [rows][D], scaled
  float* out;      // [rows][padded], not yet divided by the sum
  float* scores;   // [rows][kKeyTile]
  float* maximum;  // [rows]
  float* sum;      // [rows][16]
  float* keys;     // [kKeyTile / kPanel][D][kPanel]
  float* values;   // [kKeyTile][value_stride]

  static int64_t size(const Plan& plan) {
    return plan.rows() * (round_up(plan.kv.dim, kLanes) + plan.padded + kKeyTile + 2 * kLanes) +
           kKeyTile * (plan.kv.dim + plan.value_stride);
  }
  Workspace(const Plan& plan, float* memory) {
    const auto take = [&memory](int64_t count) { return std::exchange(memory, memory + count); };
    q = take(plan.rows() * round_up(plan.kv.dim, kLanes));
    out = take(plan.rows() * plan.padded);
    scores = take(plan.rows() * kKeyTile);
    maximum = take(plan.rows() * kLanes);
    sum = take(plan.rows() * kLanes);
    keys = take(kKeyTile * plan.kv.dim);
    values = take(kKeyTile * plan.value_stride);
  }
};

// Consecutive positions of one sequence: the queries of a tile that are worked on together.
struct Run {
  int64_t token;  // the first one's index in the step
  int64_t count;
  int64_t sequence;
  int64_t position;  // the first one's
};

class Attention : public Kernel {
 public:
  Attention(const Plan& plan, int workers) : plan_(plan) {
    worker_floats_ = Workspace::size(plan_);
    if (plan_.max_splits > 1) partial_floats_ = plan_.tokens * plan_.heads * (plan_.padded + kLanes);
    scratch_bytes = sizeof(float) * static_cast<size_t>(workers * worker_floats_ + plan_.max_splits * partial_floats_);
    implementation =
        std::string(plan_.latent ? "latent_attention " : "attention ") + std::string(dtype_name(plan_.kv.dtype));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const Step step(*this, launch);
    const Workspace space(plan_, static_cast<float*>(launch.scratch) + worker.index() * worker_floats_);
    float* partials = static_cast<float*>(launch.scratch) + worker.count() * worker_floats_;
    const int64_t splits = splits_for(step);
    const int64_t units = plan_.tiles() * plan_.kv.heads;
    // All heads of a tile on one worker, where there are tiles enough: their keys are neighbors in the cache's pages.
    const bool together = splits == 1 && plan_.tiles() >= 2 * worker.count();
    worker.parallel_for(units * splits, together ? plan_.kv.heads : 1, [&](int64_t first, int64_t last) {
      for (int64_t unit = first; unit < last; ++unit) {
        // Last tiles first: they have the most keys.
        const int64_t tile = plan_.tiles() - 1 - unit / splits / plan_.kv.heads;
        const int64_t head = unit / splits % plan_.kv.heads;
        const int64_t split = unit % splits;
        const int64_t end = std::min(plan_.tokens, (tile + 1) * plan_.tile_tokens);
        for (Run run{}; step.next_run(tile * plan_.tile_tokens, end, run);) {
          attend(step, space, run, {.head = head, .split = split, .splits = splits, .next_follows = unit + 1 < last});
          if (splits == 1) {
            write_output(step, space, run, head);
          } else {
            write_partial(space, run, head, partials + split * partial_floats_);
          }
        }
      }
    });
    if (splits == 1) return;
    worker.barrier();
    worker.parallel_for(plan_.tokens * plan_.heads, 4, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        merge(partials, splits, row, step.sink(row % plan_.heads), step.out + row * plan_.values);
    });
  }

 private:
  // The operands of one launch.
  struct Step {
    using In = abi::AttentionInput;
    Step(const Attention& kernel, const abi::Launch& launch)
        : plan(kernel.plan_),
          q(static_cast<const float*>(launch.inputs[In::kQ].data)),
          k_cache(launch.inputs[In::kKeys].data),
          v_cache(launch.inputs[In::kValues].data),
          k_scale(plan.kv.scaled() ? launch.inputs[In::kKeyScale].data : nullptr),
          v_scale(plan.kv.scaled() ? launch.inputs[In::kValueScale].data : nullptr),
          table{static_cast<const int32_t*>(launch.inputs[In::kPageTable].data), launch.inputs[In::kPageTable].shape[0],
                launch.inputs[In::kPageTable].shape[1]},
          sequence(static_cast<const int32_t*>(launch.inputs[In::kSequence].data)),
          positions(static_cast<const int32_t*>(launch.inputs[In::kPositions].data)),
          sinks(plan.sinks
                    ? static_cast<const float*>(launch.inputs[plan.kv.scaled() ? In::kScaledCount : In::kCount].data)
                    : nullptr),
          out(static_cast<float*>(launch.outputs[0].data)) {}

    float sink(int64_t head) const { return sinks != nullptr ? sinks[head] : kNoMaximum; }

    // The first run (count 0 in `run`) or the one after `run`, within tokens [begin, end). A token whose sequence or
    // position is not in the table is a separate run without keys.
    bool next_run(int64_t begin, int64_t end, Run& run) const {
      const int64_t first = run.count == 0 ? begin : run.token + run.count;
      if (first >= end) return false;
      run = {.token = first, .count = 1, .sequence = sequence[first], .position = positions[first]};
      if (run.sequence < 0 || run.sequence >= table.sequences || run.position < 0 ||
          run.position >= table.tokens(plan.kv)) {
        run.sequence = 0;
        run.position = -1;
        return true;
      }
      const int64_t most = std::min(end - first, table.tokens(plan.kv) - run.position);
      while (run.count < most && sequence[first + run.count] == run.sequence &&
             positions[first + run.count] == run.position + run.count) {
        ++run.count;
      }
      return true;
    }

    const Plan& plan;
    const float* q;
    const void* k_cache;
    const void* v_cache;
    const void* k_scale;
    const void* v_scale;
    PageTable table;
    const int32_t* sequence;
    const int32_t* positions;
    const float* sinks;  // [H] or null
    float* out;
  };

  int64_t splits_for(const Step& step) const {
    if (plan_.max_splits == 1) return 1;
    int64_t keys = 0;
    for (int64_t t = 0; t < plan_.tokens; ++t) keys = std::max<int64_t>(keys, int64_t{step.positions[t]} + 1);
    if (plan_.window > 0) keys = std::min(keys, plan_.window);
    if (plan_.chunk > 0) keys = std::min(keys, plan_.chunk);
    return std::clamp<int64_t>(keys / kSplitKeys, 1, plan_.max_splits);
  }

  // The first key that the query at `position` sees.
  int64_t first_key(int64_t position) const {
    const int64_t of_chunk = plan_.chunk > 0 ? position / plan_.chunk * plan_.chunk : 0;
    return plan_.window > 0 ? std::max(of_chunk, position - plan_.window + 1) : of_chunk;
  }

  // One KV head's part of the keys.
  struct HeadSplit {
    int64_t head;
    int64_t split, splits;  // index and number of the parts
    bool next_follows;      // whether the worker attends to the same run of the next head after this one
  };

  void attend(const Step& step, const Workspace& space, const Run& run, const HeadSplit& part) const {
    const int64_t head = part.head;
    const int rows = static_cast<int>(run.count * plan_.group);
    load_queries(step, space, run, head);
    std::fill_n(space.out, rows * plan_.padded, 0.0f);
    std::fill_n(space.maximum, rows, kNoMaximum);
    std::fill_n(space.sum, rows * kLanes, 0.0f);
    const int64_t begin = first_key(run.position);
    const int64_t end = run.position + run.count;
    const int64_t share = round_up((end - begin + part.splits - 1) / part.splits, kKeyTile);
    const int64_t from = begin + part.split * share;
    const int64_t to = std::min(end, from + share);
    for (int64_t key = from; key < to;) {
      const int64_t aligned = key / kLanes * kLanes;
      const int64_t stop = std::min(to, aligned + kKeyTile);
      const KeyTile tile = {.head = head, .base = aligned, .begin = key, .end = stop};
      KeyTile next = tile;  // the one after it
      if (stop < to) {
        next.base = stop;
      } else if (part.next_follows) {
        next = {.head = head + 1, .base = from / kLanes * kLanes, .begin = from, .end = to};
      }
      key_tile(step, space, run, tile, next, key == from);
      key = stop;
    }
  }

  void load_queries(const Step& step, const Workspace& space, const Run& run, int64_t head) const {
    float* to = space.q;
    for (int64_t t = run.token; t < run.token + run.count; ++t) {
      for (int64_t h = head * plan_.group; h < (head + 1) * plan_.group; ++h, to += plan_.kv.dim) {
        const float* from = step.q + t * plan_.token_stride + h * plan_.head_stride;
        for (int64_t d = 0; d < plan_.kv.dim; ++d) to[d] = from[d] * plan_.scale;
      }
    }
  }

  // Keys [begin, end) of the tile that starts at `base`, a multiple of 16.
  struct KeyTile {
    int64_t head, base, begin, end;
  };

  KvBlock keys_at(const Step& step, const Run& run, int64_t head, int64_t token) const {
    if (plan_.latent) return values_at(step, run, head, token);
    return key_block(plan_.kv, step.k_cache, step.k_scale, step.table.page(plan_.kv, run.sequence, token), head,
                     token & (plan_.kv.page - 1));
  }
  KvBlock values_at(const Step& step, const Run& run, int64_t head, int64_t token) const {
    return value_block(plan_.kv, step.v_cache, step.v_scale, step.table.page(plan_.kv, run.sequence, token), head,
                       token & (plan_.kv.page - 1));
  }

  // `first`: nothing of the tile was prefetched.
  void key_tile(const Step& step, const Workspace& space, const Run& run, const KeyTile& keys_of, const KeyTile& next,
                bool first) const {
    const auto [head, base, begin, end] = keys_of;
    KvBlock keys[kKeyBlocks];
    KvBlock values[kKeyBlocks];
    const int blocks = static_cast<int>((end - base + kLanes - 1) / kLanes);
    for (int i = 0; i < blocks; ++i) {
      keys[i] = keys_at(step, run, head, base + i * kLanes);
      values[i] = values_at(step, run, head, base + i * kLanes);
    }
    const int rows = static_cast<int>(run.count * plan_.group);
    if (rows <= kTileRows && first) prefetch_values(values, blocks);
    // One block of rows uses each element once: converting it on the way into the registers saves the detour.
    const bool direct =
        rows <= kTileRows && plan_.kv.dtype == DType::f16 && plan_.padded == plan_.kv.dim && !plan_.latent;
    if (!direct) convert(space, keys, values, blocks, end - base);
    if (direct) {
      direct_scores(space, rows, keys, blocks, distance(keys[0], keys_at(step, run, next.head, next.base)));
    } else {
      tiled_scores(space, rows, blocks);
    }
    apply_softmax(space, run, base, begin, end);
    if (direct) {
      direct_output(space, rows, values, begin - base, end - base,
                    distance(values[0], values_at(step, run, next.head, next.base)));
    } else {
      tiled_output(space, rows, begin - base, end - base);
    }
  }

  // With few queries the cache comes from memory at the pace of a tile's arithmetic: while the scores are computed, the
  // values are on their way (one token of 128 keys, Zen 3: 5.8 to 5.1 µs).
  void prefetch_values(const KvBlock* values, int blocks) const {
    const int64_t block_bytes = kLanes * plan_.kv.rows() * plan_.kv.element_bytes();
    for (int i = 0; i < blocks; ++i) {
      for (int64_t at = 0; at < block_bytes; at += 64) prefetch(static_cast<const char*>(values[i].data) + at);
    }
  }

  static int64_t distance(const KvBlock& from, const KvBlock& to) {
    return static_cast<const char*>(to.data) - static_cast<const char*>(from.data);
  }

  void direct_scores(const Workspace& space, int rows, const KvBlock* keys, int blocks, int64_t ahead) const {
    const int step = tile_vectors(rows);
    for (int block = 0; block < blocks; block += step) {
      const ProductTile tile{space.q, plan_.kv.dim, 1, space.scores + block * kLanes, kKeyTile, false};
      product_tile(rows, std::min(step, blocks - block), tile, HalfKeys{keys + block, plan_.kv.page, ahead}, 0,
                   plan_.kv.dim);
    }
  }

  void direct_output(const Workspace& space, int rows, const KvBlock* values, int64_t begin, int64_t end,
                     int64_t ahead) const {
    const int step = tile_vectors(rows);
    const int vectors = static_cast<int>(plan_.padded / kLanes);
    for (int v = 0; v < vectors; v += step) {
      const ProductTile tile{space.scores, kKeyTile, 1, space.out + v * kLanes, plan_.padded, true};
      product_tile(rows, std::min(step, vectors - v), tile, HalfValues{values, plan_.kv.dim, v * kLanes, ahead}, begin,
                   end);
    }
  }

  // The tile of keys and of values in f32; the last one has `end` tokens.
  void convert(const Workspace& space, const KvBlock* keys, const KvBlock* values, int blocks, int64_t end) const {
    for (int i = 0; i < blocks; ++i) {
      const int tokens = static_cast<int>(std::min<int64_t>(kLanes, end - i * kLanes));
      float* const rows = space.values + i * kLanes * plan_.value_stride;
      convert_values(plan_.kv, values[i], tokens, rows, plan_.value_stride);
      float* to = space.keys + i / kTileVectors * plan_.kv.dim * kPanel + i % kTileVectors * kLanes;
      if (!plan_.latent) {
        convert_keys(plan_.kv, keys[i], to, kPanel);
        continue;
      }
      for (int64_t d = 0; d < plan_.kv.dim; ++d) {
        for (int j = 0; j < kLanes; ++j) to[d * kPanel + j] = j < tokens ? rows[j * plan_.value_stride + d] : 0;
      }
    }
  }

  void tiled_scores(const Workspace& space, int rows, int blocks) const {
    for (int block = 0; block < blocks; block += kTileVectors) {
      const FloatSource source{space.keys + block * kLanes * plan_.kv.dim, kPanel};
      for (int row = 0; row < rows; row += kTileRows) {
        const ProductTile tile{space.q + row * plan_.kv.dim,
                               plan_.kv.dim,
                               1,
                               space.scores + row * kKeyTile + block * kLanes,
                               kKeyTile,
                               false};
        product_tile(std::min(kTileRows, rows - row), std::min(kTileVectors, blocks - block), tile, source, 0,
                     plan_.kv.dim);
      }
    }
  }

  void tiled_output(const Workspace& space, int rows, int64_t begin, int64_t end) const {
    const int vectors = static_cast<int>(plan_.padded / kLanes);
    for (int v = 0; v < vectors; v += kTileVectors) {
      const FloatSource source{space.values + v * kLanes, plan_.value_stride};
      for (int row = 0; row < rows; row += kTileRows) {
        const ProductTile tile{space.scores + row * kKeyTile,
                               kKeyTile,
                               1,
                               space.out + row * plan_.padded + v * kLanes,
                               plan_.padded,
                               true};
        product_tile(std::min(kTileRows, rows - row), std::min(kTileVectors, vectors - v), tile, source, begin, end);
      }
    }
  }

  // Scores become weights e^(s - maximum); sums and outputs so far are brought to the new maximum.
  void apply_softmax(const Workspace& space, const Run& run, int64_t base, int64_t begin, int64_t end) const {
    const int vectors = static_cast<int>((end - base + kLanes - 1) / kLanes);
    for (int64_t i = 0; i < run.count; ++i) {
      const int64_t position = run.position + i;
      const int64_t low = std::max(begin, first_key(position)) - base;
      const int64_t high = std::min(end, position + 1) - base;
      for (int64_t row = i * plan_.group; row < (i + 1) * plan_.group; ++row) {
        soften_row(space, row, vectors, low, high);
      }
    }
  }

  void soften_row(const Workspace& space, int64_t row, int vectors, int64_t low, int64_t high) const {
    float* scores = space.scores + row * kKeyTile;
    F32 scored[kKeyBlocks];
    F32 highest = splat(kNoMaximum);
    for (int v = 0; v < vectors; ++v) {
      scored[v] = load(scores + v * kLanes);
      if (plan_.softcap > 0) scored[v] = splat(plan_.softcap) * tanh(scored[v] * splat(1 / plan_.softcap));
      if (v * kLanes < low || (v + 1) * kLanes > high) {
        const F32 lane = load(kLaneNumbers) + splat(static_cast<float>(v * kLanes));
        const F32 hidden = splat(-std::numeric_limits<float>::infinity());
        scored[v] = select(lane < splat(static_cast<float>(high)), scored[v], hidden);
        scored[v] = select(lane < splat(static_cast<float>(low)), hidden, scored[v]);
      }
      highest = max(scored[v], highest);
    }
    const float old_maximum = space.maximum[row];
    const float maximum = std::max(old_maximum, reduce_max(highest));
    F32 sum = load(space.sum + row * kLanes);
    if (maximum != old_maximum) {
      const F32 factor = splat(std::exp(old_maximum - maximum));
      float* out = space.out + row * plan_.padded;
      for (int64_t d = 0; d < plan_.padded; d += kLanes) store(out + d, load(out + d) * factor);
      sum *= factor;
      space.maximum[row] = maximum;
    }
    for (int v = 0; v < vectors; ++v) {
      const F32 weight = exp(scored[v] - splat(maximum));
      store(scores + v * kLanes, weight);
      sum += weight;
    }
    store(space.sum + row * kLanes, sum);
  }

  // The factor that makes a result of sums relative to `maximum`; a query without keys gives zeros.
  static float final_factor(float sum, float maximum, float sink) {
    if (sum == 0) return 0;
    if (sink <= kNoMaximum) return 1 / sum;
    const float highest = std::max(maximum, sink), factor = std::exp(maximum - highest);
    return factor / (sum * factor + std::exp(sink - highest));
  }

  void write_output(const Step& step, const Workspace& space, const Run& run, int64_t head) const {
    for (int64_t i = 0; i < run.count; ++i) {
      for (int64_t h = 0; h < plan_.group; ++h) {
        const int64_t row = i * plan_.group + h;
        const float sum = reduce_sum(load(space.sum + row * kLanes));
        const float factor = final_factor(sum, space.maximum[row], step.sink(head * plan_.group + h));
        const float* from = space.out + row * plan_.padded;
        float* to = step.out + ((run.token + i) * plan_.heads + head * plan_.group + h) * plan_.values;
        for (int64_t d = 0; d < plan_.values; ++d) to[d] = from[d] * factor;
      }
    }
  }

  // A partial result is a row of out, then the maximum and the sum.
  void write_partial(const Workspace& space, const Run& run, int64_t head, float* partial) const {
    for (int64_t i = 0; i < run.count; ++i) {
      for (int64_t h = 0; h < plan_.group; ++h) {
        const int64_t row = i * plan_.group + h;
        const int64_t index = (run.token + i) * plan_.heads + head * plan_.group + h;
        float* to = partial + index * (plan_.padded + kLanes);
        std::copy_n(space.out + row * plan_.padded, plan_.padded, to);
        to[plan_.padded] = space.maximum[row];
        to[plan_.padded + 1] = reduce_sum(load(space.sum + row * kLanes));
      }
    }
  }

  void merge(const float* partials, int64_t splits, int64_t row, float sink, float* to) const {
    const float* first = partials + row * (plan_.padded + kLanes);
    float maximum = kNoMaximum;
    for (int64_t s = 0; s < splits; ++s) maximum = std::max(maximum, first[s * partial_floats_ + plan_.padded]);
    float sum = 0;
    std::fill_n(to, plan_.values, 0.0f);
    for (int64_t s = 0; s < splits; ++s) {
      const float* from = first + s * partial_floats_;
      const float factor = std::exp(from[plan_.padded] - maximum);
      sum += from[plan_.padded + 1] * factor;
      for (int64_t d = 0; d < plan_.values; ++d) to[d] += from[d] * factor;
    }
    const float factor = final_factor(sum, maximum, sink);
    for (int64_t d = 0; d < plan_.values; ++d) to[d] *= factor;
  }

  static constexpr float kLaneNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

  Plan plan_;
  int64_t worker_floats_ = 0;
  int64_t partial_floats_ = 0;
};

KernelPointer make_any(const abi::KernelRequest& request, const MakeContext& context, bool latent) {
  using In = abi::AttentionInput;
  const bool scaled = In::is_scaled(request), sinks = In::has_sinks(request);
  const int count = scaled ? In::kScaledCount : In::kCount;
  if (!has_operands(request, count + (sinks ? 1 : 0), 1)) return nullptr;
  const abi::TensorView* in = request.inputs;
  const abi::TensorView& q = in[In::kQ];  // [T, H, D]
  Plan plan;
  KvShape values;
  if (!is_plain(q, DType::f32) || q.rank != 3 || (q.strides[2] != 1 && q.shape[2] != 1)) return nullptr;
  if (!read_kv_shape(in[In::kKeys], scaled ? &in[In::kKeyScale] : nullptr, !latent, plan.kv)) return nullptr;
  plan.latent = latent;
  plan.values = latent ? integer_attribute(request, "values", 0) : plan.kv.dim;
  if (latent && (plan.kv.heads != 1 || plan.values < 1 || plan.values > plan.kv.dim)) return nullptr;
  if (!read_kv_shape(in[In::kValues], scaled ? &in[In::kValueScale] : nullptr, false, values) ||
      !same_kv(plan.kv, values))
    return nullptr;
  plan.tokens = q.shape[0];
  plan.heads = q.shape[1];
  if (q.shape[2] != plan.kv.dim || plan.heads == 0 || plan.heads % plan.kv.heads != 0) return nullptr;
  if (in[In::kPageTable].rank != 2 ||
      !has_shape(in[In::kPageTable], DType::i32, {in[In::kPageTable].shape[0], in[In::kPageTable].shape[1]}))
    return nullptr;
  if (!has_shape(in[In::kSequence], DType::i32, {plan.tokens}) ||
      !has_shape(in[In::kPositions], DType::i32, {plan.tokens}))
    return nullptr;
  if (!has_shape(request.outputs[0], DType::f32, {plan.tokens, plan.heads, plan.values})) return nullptr;
  plan.group = plan.heads / plan.kv.heads;
  plan.padded = round_up(plan.values, kLanes);
  plan.value_stride = round_up(plan.kv.dim, kLanes);
  plan.token_stride = q.strides[0];
  plan.head_stride = q.strides[1];
  plan.window = std::max<int64_t>(0, integer_attribute(request, "window", 0));
  plan.chunk = std::max<int64_t>(0, integer_attribute(request, "chunk", 0));
  plan.sinks = sinks;
  if (sinks && !has_shape(in[count], DType::f32, {plan.heads})) return nullptr;
  plan.scale = static_cast<float>(real_attribute(request, "scale", 1.0 / std::sqrt(static_cast<double>(plan.kv.dim))));
  plan.softcap = static_cast<float>(real_attribute(request, "softcap", 0));
  // Tiles small enough that each worker gets a few; where even single tokens are too few, splits of the keys.
  const int64_t wanted = int64_t{4} * context.workers;
  plan.tile_tokens = std::max<int64_t>(1, kRowTarget / plan.group);
  plan.tile_tokens = std::clamp<int64_t>(plan.tokens * plan.kv.heads / wanted, 1, plan.tile_tokens);
  const int64_t units = std::max<int64_t>(1, plan.tiles() * plan.kv.heads);
  plan.max_splits = context.workers == 1 || units >= wanted ? 1 : (wanted + units - 1) / units;
  return std::make_unique<Attention>(plan, context.workers);
}

}  // namespace

KernelPointer make_attention(const abi::KernelRequest& request, const MakeContext& context) {
  return make_any(request, context, false);
}

KernelPointer make_latent_attention(const abi::KernelRequest& request, const MakeContext& context) {
  return make_any(request, context, true);
}

}  // namespace gabbro::cpu::GABBRO_ISA
