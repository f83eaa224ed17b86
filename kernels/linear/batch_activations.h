// The activations of linear_batch.cc in a block's memory, a stage of steps at a time: copies of what a launch before
// has converted, or, of few tokens, converted by each block for itself.
#pragma once

#include "kernels/linear/batch_products.h"

#ifdef GABBRO_MATRIX_CORES
namespace gabbro::gpu::GABBRO_GPU {

// Common to both kinds of copies.
template <int tile_tokens>
class CopiedActivations {
 public:
  static constexpr bool kScales = false, kEight = false, kFree = false;

  GPU_FUNCTION CopiedActivations(const LinearBatchArgs& a, i32 token) : a_(a), token_(token) {}
  GPU_FUNCTION void end() {}
  GPU_FUNCTION void begin_splits(bool) {}
  GPU_FUNCTION void end_splits(bool) {}
  GPU_FUNCTION void sync_scales() {}
  // Factors of the tile's token: for the sums of a split, and for the sums of all splits.
  GPU_FUNCTION float split_scale(i32 token) const { return scales()[token]; }
  GPU_FUNCTION float scale(i32) const { return 1; }

 protected:
  // Before the barrier of the first stage, while its copies are under way.
  GPU_FUNCTION void load_scales() const {
    const i32 own = static_cast<i32>(thread_index()), row = token_ + own;
    if (own >= tile_tokens || row >= a_.tokens) return;
    const i32 parts = a_.parts;
    float scale = a_.scales[row * parts + (parts > 1 ? static_cast<i32>(block_index().z) : 0)];
    if (a_.norm != nullptr) {
      float squares = 0;
#pragma unroll 4
      for (i32 p = 0; p < parts; ++p) squares += a_.row_squares[row * parts + p];
      scale /= sqrt(squares / static_cast<float>(a_.columns) + a_.epsilon);
    }
    scales()[own] = scale;
  }

 private:
  GPU_FUNCTION static float* scales() {
    GPU_SHARED(float, scales, tile_tokens);
    return scales;
  }
  const LinearBatchArgs& a_;
  i32 token_;
};

// Steps of the activations, consecutive in memory.
#ifdef GABBRO_BULK_COPIES
template <int tile_tokens>
class BulkCopies : public CopiedActivations<tile_tokens> {
 public:
  GPU_FUNCTION BulkCopies(const LinearBatchArgs& a, i32 token)
      : CopiedActivations<tile_tokens>(a, token),
        from_(a.f16 + static_cast<i64>(token) * kBatchDepth),
        step_(static_cast<i64>(a.padded) * kBatchDepth) {}

 protected:
  GPU_FUNCTION static auto& memory() { return block_memory<BatchMemory<tile_tokens>>(); }
  // Called by one thread: copies steps [step, step + count) to `to`.
  GPU_FUNCTION void send(CopyBarrier& landed, BatchStep<tile_tokens>* to, i32 step, i32 count) const {
    constexpr u32 kStepBytes = sizeof(BatchStep<tile_tokens>);
    expect_bytes(landed, static_cast<u32>(count) * kStepBytes);
#pragma unroll 1
    for (i32 s = 0; s < count; ++s) begin_bulk_copy(landed, to[s], from_ + (step + s) * step_, kStepBytes);
  }

 private:
  const Half* from_;
  i64 step_;  // elements
};

// Each step when all waves have read what was in its slot.
template <int tile_tokens>
class StepCopies : public BulkCopies<tile_tokens> {
 public:
  static constexpr bool kFree = true;  // waves do not wait for each other

  GPU_FUNCTION StepCopies(const LinearBatchArgs& a, i32 token) : BulkCopies<tile_tokens>(a, token) {
    if (thread_index() == 0) {
#pragma unroll
      for (u32 i = 0; i < kSlots; ++i) {
        begin_barrier(landed_of(i), 1);
        begin_barrier(read_of(i), kBatchWaves);
      }
      show_barriers();
    }
    barrier();
  }
  GPU_FUNCTION void start(i32 begin, i32 end) {
#pragma unroll
    for (u32 number = 0; number < kSlots; ++number) send_step(number, begin + static_cast<i32>(number), end);
    this->load_scales();
  }
  // Step `step`, when it is there. This wave has read the one before it.
  GPU_FUNCTION const Half* next(i32 step, i32 end) {
    const u32 number = number_++;
    if (number > 0) {
      const u32 before = number - 1;
      arrive(read_of(before));
      if (thread_index() == 0) wait_for_barrier(read_of(before), before / kSlots);
      send_step(before + kSlots, step - 1 + static_cast<i32>(kSlots), end);
    }
    wait_for_barrier(landed_of(number), number / kSlots);
    return slot(number);
  }
  // No barrier has come after load_scales().
  GPU_FUNCTION void sync_scales() { barrier(); }

 private:
  static constexpr u32 kSlots = kBatchStages * kStageSteps;
  GPU_FUNCTION static CopyBarrier& landed_of(u32 number) {
    return BulkCopies<tile_tokens>::memory().landed[number % kSlots];
  }
  GPU_FUNCTION static CopyBarrier& read_of(u32 number) {
    return BulkCopies<tile_tokens>::memory().read[number % kSlots];
  }
  GPU_FUNCTION static BatchStep<tile_tokens>& slot(u32 number) {
    return BulkCopies<tile_tokens>::memory().x[number / kStageSteps % kBatchStages][number % kStageSteps];
  }
  GPU_FUNCTION void send_step(u32 number, i32 step, i32 end) const {
    if (thread_index() == 0 && step < end) this->send(landed_of(number), &slot(number), step, 1);
  }
  u32 number_ = 0;
};

template <int tile_tokens>
class StageCopies : public BulkCopies<tile_tokens> {
 public:
  GPU_FUNCTION StageCopies(const LinearBatchArgs& a, i32 token) : BulkCopies<tile_tokens>(a, token) {
    if (thread_index() == 0) {
#pragma unroll
      for (int i = 0; i < kBatchStages; ++i) begin_barrier(landed_of(i), 1);
      show_barriers();
    }
    barrier();
  }
  // Copies the steps of a stage from `step` on that are before `end`.
  GPU_FUNCTION void begin(i32 step, i32 end, BatchStage<tile_tokens>& stage) {
    const u32 number = begun_++;
    if (thread_index() == 0 && step < end) this->send(landed_of(number), stage, step, min_of(kStageSteps, end - step));
  }
  GPU_FUNCTION void landed() {
    const u32 number = ended_++;
    if (number == 0) this->load_scales();
    wait_for_barrier(landed_of(number), number / kBatchStages);
  }

 private:
  GPU_FUNCTION static CopyBarrier& landed_of(u32 number) {
    return BulkCopies<tile_tokens>::memory().landed[number % kBatchStages];
  }
  u32 begun_ = 0, ended_ = 0;
};
#else
template <int tile_tokens>
class StageCopies : public CopiedActivations<tile_tokens> {
 public:
  GPU_FUNCTION StageCopies(const LinearBatchArgs& a, i32 token)
      : CopiedActivations<tile_tokens>(a, token),
        from_(a.f16 + (static_cast<i64>(token) * kStepVectors + thread_index()) * 8),
        step_(static_cast<i64>(a.padded) * kBatchDepth) {}
  // Copies the steps of a stage from `step` on that are before `end`.
  GPU_FUNCTION void begin(i32 step, i32 end, BatchStage<tile_tokens>& stage) {
#pragma unroll
    for (int s = 0; s < kStageSteps; ++s) {
      Half* to = stage[s] + thread_index() * 8;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const i32 at = i * kBatchThreads * 8;
        if (step + s < end) copy_.begin(s * kCount + i, to + at, from_ + (step + s) * step_ + at, true);
      }
    }
    copy_.sent();
  }
  GPU_FUNCTION void landed() {
    if (first_) this->load_scales();
    first_ = false;
    copy_.template landed<0>();
  }

 private:
  static constexpr int kCount = tile_tokens * kStepVectors / kBatchThreads;
  static_assert(kCount * kBatchThreads == tile_tokens * kStepVectors);
  const Half* from_;
  i64 step_;  // elements
  bool first_ = true;
  TileCopy<kCount * kStageSteps> copy_;
};
template <int tile_tokens>
using StepCopies = StageCopies<tile_tokens>;
#endif

// For up to kOwnTokens tokens: no launch comes before. A wave converts every kBatchWaves'th token, a lane neighboring
// columns of a stage. A stage of a token is multiplied by a power of two, as a row of ConvertRowsArgs is. With an
// RMSNorm x·weight is multiplied, and 1 / rms(x) is applied at the end. Values in the stages' slots of the
// tile's other tokens are multiplied too, and not stored.
template <bool blocks>
class OwnActivations {
 public:
  static constexpr bool kScales = true, kEight = kOwnTokens <= 8, kFree = false;
  static constexpr int kTokens = static_cast<int>(kTile);

  GPU_FUNCTION OwnActivations(const LinearBatchArgs& a, i32)
      : a_(a), x_(a.x), norm_(a.norm), columns_(a.columns), tokens_(a.tokens) {}

  // Loads the steps of a stage from `step` on; elements past K, or of steps from `end` on, are zeros.
  GPU_FUNCTION void begin(i32 step, i32 end, BatchStage<kTokens>& stage) {
    stage_ = stage[0];
    const i32 column = step * kBatchDepth + first_column();
    const bool inside = column < min_of(end * kBatchDepth, columns_);
    load(norm_, inside, column, weights_);
#pragma unroll
    for (int t = 0; t < kOwn; ++t) load(token(t) < tokens_ ? row(t) : nullptr, inside, column, values_[t]);
  }
  // Converts them.
  GPU_FUNCTION void landed() {
    turn_ = (turn_ + 1) % kBatchStages;
#pragma unroll
    for (int t = 0; t < kOwn; ++t) {
      if (token(t) >= tokens_) continue;
      float peak = 0;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        squares_[t] = fma(values_[t][i], values_[t][i], squares_[t]);
        if (norm_ != nullptr) values_[t][i] *= weights_[i];
        peak = max_of(peak, abs(values_[t][i]));
      }
      const F16Scale scale = f16_scale(wave_max(peak));
      if (lane() == 0) memory().undo[turn_][token(t)] = scale.undone_by;
      store(token(t), values_[t], scale.factor);
    }
  }
  // sums += the stage's parts, which become zeros.
  template <int token_tiles>
  GPU_FUNCTION void add(Accumulator (&parts)[token_tiles], Accumulator (&sums)[token_tiles]) const {
#pragma unroll
    for (int i = 0; i < Accumulator::kCount; ++i) {
      const u32 token = column_of(i);
      if (token < kOwnTokens) sums[0].value[i] = fma(parts[0].value[i], memory().undo[turn_][token], sums[0].value[i]);
      parts[0].value[i] = 0;
    }
  }

  // Called by all threads after the last stage: with one split, or before and after the splits' sums are exchanged.
  GPU_FUNCTION void end() {
    if (norm_ == nullptr) return;
    store_squares(memory().factors);
    barrier();
    const i32 own = static_cast<i32>(thread_index());
    if (own < tokens_) memory().factors[own] = factor(memory().factors[own]);
    barrier();
  }
  GPU_FUNCTION void begin_splits(bool cluster) {
    if (norm_ == nullptr) return;
    store_squares(cluster ? memory().squares : squares_of(static_cast<i32>(block_index().z)));
  }
  GPU_FUNCTION void end_splits([[maybe_unused]] bool cluster) {
    if (norm_ == nullptr) return;
    const i32 own = static_cast<i32>(thread_index());
    if (own < tokens_) {
      float sum = 0;
      for (i32 z = 0; z < static_cast<i32>(grid_size().z); ++z) {
#ifdef GABBRO_CLUSTERS
        if (cluster) {
          sum += *of_block(memory().squares + own, static_cast<u32>(z));
          continue;
        }
#endif
        sum += load_shared_result(squares_of(z) + own);
      }
      memory().factors[own] = factor(sum);
    }
    barrier();
  }
  GPU_FUNCTION void sync_scales() {}
  GPU_FUNCTION float split_scale(i32) const { return 1; }
  GPU_FUNCTION float scale(i32 token) const { return norm_ != nullptr ? memory().factors[token] : 1; }

 private:
  static constexpr int kOwn = (kOwnTokens + kBatchWaves - 1) / kBatchWaves;             // tokens of a wave
  static constexpr int kColumns = kStageSteps * kBatchDepth / static_cast<int>(kWave);  // of a lane: 2, 4 or 8

  struct Memory {
    float undo[kBatchStages][kOwnTokens];
    float squares[kOwnTokens];  // of the block's split
    float factors[kOwnTokens];  // 1 / rms(x), at the end
  };
  GPU_FUNCTION static Memory& memory() {
    GPU_SHARED(Memory, memory, 1);
    return memory[0];
  }
  GPU_FUNCTION static i32 token(int t) { return static_cast<i32>(wave_index()) + t * kBatchWaves; }
  GPU_FUNCTION static i32 first_column() { return static_cast<i32>(lane()) * kColumns; }
  GPU_FUNCTION const float* row(int t) const { return x_ + static_cast<i64>(token(t)) * columns_; }
  GPU_FUNCTION static void load(const float* row, bool inside, i32 column, float (&values)[kColumns]) {
    const bool there = inside && row != nullptr;
    if constexpr (kColumns % 4 == 0) {
#pragma unroll
      for (int first = 0; first < kColumns; first += 4) {
        const Vec16 four = there ? load_vec16(row + column + first) : Vec16{};
#pragma unroll
        for (int i = 0; i < 4; ++i) values[first + i] = bits_to_float(four.word[i]);
      }
    } else {
      const FloatPair pair = there ? *reinterpret_cast<const FloatPair*>(row + column) : FloatPair{0, 0};
      values[0] = pair.a;
      values[1] = pair.b;
    }
  }
  GPU_FUNCTION void store(i32 token, const float (&values)[kColumns], float factor) const {
    const i32 step = first_column() / kBatchDepth, column = first_column() % kBatchDepth;
    Half* to =
        stage_ + step * kTokens * kBatchDepth + batch_vector(token, column / 8, kTokens, blocks) * 8 + column % 8;
    u32 words[kColumns / 2];
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) words[i] = pack_f16x2(values[2 * i] * factor, values[2 * i + 1] * factor);
    if constexpr (kColumns == 8) {
      store_vec16(to, Vec16{words[0], words[1], words[2], words[3]});
    } else {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) reinterpret_cast<u32*>(to)[i] = words[i];
    }
  }
  GPU_FUNCTION void store_squares(float* to) const {
#pragma unroll
    for (int t = 0; t < kOwn; ++t) {
      const float sum = wave_sum(squares_[t]);
      if (lane() == 0 && token(t) < tokens_) to[token(t)] = sum;
    }
  }
  // The activations of a split, for the blocks of the same rows.
  GPU_FUNCTION float* squares_of(i32 split) const {
    return a_.squares + (block_index().x * grid_size().z + static_cast<u32>(split)) * kOwnTokens;
  }
  GPU_FUNCTION float factor(float squares) const {
    return 1 / sqrt(squares / static_cast<float>(columns_) + a_.epsilon);
  }

  const LinearBatchArgs& a_;
  const float* x_;
  const float* norm_;
  i32 columns_, tokens_;
  Half* stage_ = nullptr;
  u32 turn_ = kBatchStages - 1;
  float values_[kOwn][kColumns], weights_[kColumns], squares_[kOwn] = {};
};

}  // namespace gabbro::gpu::GABBRO_GPU
#endif
