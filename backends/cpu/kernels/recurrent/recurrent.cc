// `recurrent` in f32: all steps of a layer in one launch. The weights are packed once, with the gates of 16 hidden
// units next to each other, and each step multiplies a tile of the state and applies the cell while the sums are in
// the L1 cache.
#include "backends/cpu/kernels/recurrent/recurrent.h"

#include "backends/cpu/kernels/tensor_kernels.h"
#include "backends/cpu/simd/math.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kBlocksTogether = 2;  // an even number of vectors, whatever the gates
constexpr int64_t kTileFloats = kTileBatch * kBlocksTogether * 4 * kLanes;

F32 add(const float* x, const float* bias, F32 sum, int count) {
  return (load_some(x, count) + load_some(bias, count)) + sum;
}

template <RecurrentCell kCell>
class Recurrent : public Kernel {
 public:
  static constexpr int64_t kGates = recurrent_gates(kCell);

  Recurrent(const RecurrentShape& shape, int workers) : shape_(shape), schedule_(shape, workers, kBlocksTogether) {
    const int64_t vectors = shape.blocks() * kGates, depth = shape.hidden;
    packed_floats_ = packed_columns_floats(vectors * kLanes, depth);
    scratch_bytes = static_cast<size_t>(packed_floats_) * sizeof(float);
    implementation = "recurrent f32";
    const auto states = static_cast<double>(shape.steps * shape.batch * shape.hidden);
    flops = states * kGates * (2.0 * static_cast<double>(shape.hidden) + 20);
    bytes = 4 * (states * (kGates * 2 + 2) + static_cast<double>(packed_floats_));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    auto* packed = static_cast<float*>(launch.scratch);
    pack(static_cast<const float*>(launch.inputs[1].data), packed, worker);
    const int64_t state = shape_.batch * shape_.hidden;
    float* const outputs[] = {static_cast<float*>(launch.outputs[0].data),
                              kCell == RecurrentCell::kLstm ? static_cast<float*>(launch.outputs[1].data) : nullptr};
    for (int i = 0; i < (kCell == RecurrentCell::kLstm ? 2 : 1); ++i) {
      const auto* first = static_cast<const float*>(launch.inputs[3 + i].data);
      float* to = outputs[i] + shape_.state_row(0) * state;
      worker.parallel_for(state, 4096,
                          [&](int64_t begin, int64_t end) { std::copy(first + begin, first + end, to + begin); });
    }
    worker.barrier();
    if (worker.stopped()) return;
    schedule_.run(shape_.steps, worker, [&](int64_t s, const StateTile& tile) { step(launch, packed, s, tile); });
  }

 private:
  // weight [gates · H, H] to columns in the order [block][gate][16].
  void pack(const float* weight, float* packed, Worker& worker) const {
    const int64_t depth = shape_.hidden, vectors = shape_.blocks() * kGates;
    worker.parallel_for(vectors, 4, [&](int64_t begin, int64_t end) {
      for (int64_t v = begin; v < end; ++v) {
        const int64_t unit = v / kGates * kLanes, count = std::min<int64_t>(kLanes, depth - unit);
        const float* from = weight + (v % kGates * depth + unit) * depth;
        int64_t k = 0;
        for (; count == kLanes && k + 8 <= depth; k += 8) {
          for (int64_t lane = 0; lane < kLanes; lane += 8)
            transpose_eights(from + lane * depth + k, depth, 8, packed + packed_offset(v, k, depth) + lane, kPanel);
        }
        for (; k < depth; ++k) {
          float* to = packed + packed_offset(v, k, depth);
          for (int64_t lane = 0; lane < kLanes; ++lane) to[lane] = lane < count ? from[lane * depth + k] : 0;
        }
      }
    });
  }

  void step(const abi::Launch& launch, const float* packed, int64_t s, const StateTile& tile) const {
    alignas(64) float sums[kTileFloats];
    const int64_t hidden = shape_.hidden, before = shape_.state_row(s) * shape_.batch,
                  after = shape_.state_row(s + 1) * shape_.batch, row_of_step = shape_.step_row(s) * shape_.batch;
    auto* h = static_cast<float*>(launch.outputs[0].data);
    const int64_t vectors = (tile.block_end - tile.block) * kGates;
    recurrent_product({.a = h + (before + tile.row) * hidden,
                       .rows = tile.row_end - tile.row,
                       .depth = hidden,
                       .packed = packed,
                       .first = tile.block * kGates,
                       .vectors = vectors},
                      sums);
    const auto* x = static_cast<const float*>(launch.inputs[0].data);
    const auto* bias = static_cast<const float*>(launch.inputs[2].data);
    for (int64_t row = tile.row; row < tile.row_end; ++row) {
      const float* sum = sums + (row - tile.row) * vectors * kLanes;
      for (int64_t block = tile.block; block < tile.block_end; ++block, sum += kGates * kLanes) {
        const int64_t unit = block * kLanes;
        const int count = static_cast<int>(std::min<int64_t>(kLanes, hidden - unit));
        const Unit at{.x = x + (row_of_step + row) * kGates * hidden + unit,
                      .bias = bias + unit,
                      .sums = sum,
                      .before = (before + row) * hidden + unit,
                      .after = (after + row) * hidden + unit,
                      .saved = (row_of_step + row) * 4 * hidden + unit,
                      .count = count};
        apply(launch, at);
      }
    }
  }

  // One block of hidden units of one row.
  struct Unit {
    const float *x, *bias, *sums;
    int64_t before, after;  // where the states are
    int64_t saved;          // where the activations are
    int count;
  };

  void apply(const abi::Launch& launch, const Unit& at) const {
    const int64_t hidden = shape_.hidden;
    const int count = at.count;
    auto* h = static_cast<float*>(launch.outputs[0].data);
    const auto gate = [&](int64_t g) {
      return add(at.x + g * hidden, at.bias + g * hidden, load(at.sums + g * kLanes), count);
    };
    if constexpr (kCell == RecurrentCell::kTanh) {
      store_some(h + at.after, tanh(gate(0)), count);
    } else if constexpr (kCell == RecurrentCell::kRelu) {
      const F32 sum = gate(0);
      store_some(h + at.after, select(sum < zero_f32(), zero_f32(), sum), count);  // NaN stays
    } else if constexpr (kCell == RecurrentCell::kLstm) {
      auto* c = static_cast<float*>(launch.outputs[1].data);
      float* saved = static_cast<float*>(launch.outputs[2].data) + at.saved;
      const F32 i = sigmoid(gate(0)), f = sigmoid(gate(1)), g = tanh(gate(2)), o = sigmoid(gate(3));
      const F32 next = fma(f, load_some(c + at.before, count), i * g);
      store_some(c + at.after, next, count);
      store_some(h + at.after, o * tanh(next), count);
      store_some(saved, i, count);
      store_some(saved + hidden, f, count);
      store_some(saved + 2 * hidden, g, count);
      store_some(saved + 3 * hidden, o, count);
    } else {
      float* saved = static_cast<float*>(launch.outputs[1].data) + at.saved;
      const F32 r = sigmoid(gate(0)), z = sigmoid(gate(1));
      const F32 part = load_some(at.bias + 2 * hidden, count) + load(at.sums + 2 * kLanes);
      const F32 n = tanh(fma(r, part, load_some(at.x + 2 * hidden, count)));
      store_some(h + at.after, fma(z, load_some(h + at.before, count) - n, n), count);
      store_some(saved, r, count);
      store_some(saved + hidden, z, count);
      store_some(saved + 2 * hidden, n, count);
      store_some(saved + 3 * hidden, part, count);
    }
  }

  RecurrentShape shape_;
  RecurrentSchedule schedule_;
  int64_t packed_floats_ = 0;
};

}  // namespace

bool read_recurrent(const abi::KernelRequest& request, const abi::TensorView& states, RecurrentShape& shape) {
  shape.cell = static_cast<RecurrentCell>(abi::integer_attribute(request, "cell", 0));
  shape.reversed = abi::integer_attribute(request, "reversed", 0) != 0;
  if (states.rank != 3 || states.shape[0] < 2 || shape.cell > RecurrentCell::kGru) return false;
  shape.steps = states.shape[0] - 1;
  shape.batch = states.shape[1];
  shape.hidden = states.shape[2];
  return shape.batch > 0 && shape.hidden > 0;
}

KernelPointer make_recurrent(const abi::KernelRequest& request, const MakeContext& context) {
  RecurrentShape s;
  if (request.input_count < 4 || !read_recurrent(request, request.outputs[0], s)) return nullptr;
  const int64_t rows = s.gates() * s.hidden;
  const bool has_cell = s.cell == RecurrentCell::kLstm;
  if (!has_operands(request, has_cell ? 5 : 4, has_cell ? 3 : s.cell == RecurrentCell::kGru ? 2 : 1)) return nullptr;
  if (!has_shape(request.inputs[0], DType::f32, {s.steps, s.batch, rows}) ||
      !has_shape(request.inputs[1], DType::f32, {rows, s.hidden}) ||
      !has_shape(request.inputs[2], DType::f32, {rows}) ||
      !has_shape(request.inputs[3], DType::f32, {s.batch, s.hidden}) ||
      (has_cell && !has_shape(request.inputs[4], DType::f32, {s.batch, s.hidden})))
    return nullptr;
  switch (s.cell) {
    case RecurrentCell::kTanh:
      return std::make_unique<Recurrent<RecurrentCell::kTanh>>(s, context.workers);
    case RecurrentCell::kRelu:
      return std::make_unique<Recurrent<RecurrentCell::kRelu>>(s, context.workers);
    case RecurrentCell::kLstm:
      return std::make_unique<Recurrent<RecurrentCell::kLstm>>(s, context.workers);
    case RecurrentCell::kGru:
      return std::make_unique<Recurrent<RecurrentCell::kGru>>(s, context.workers);
  }
  return nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
