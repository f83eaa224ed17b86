// `recurrent_gradient` in f32: backpropagation through all steps of a layer in one launch, the last step first. A step
// multiplies the gradients of the pre-activations of the step after by the weights, which are packed once, and goes
// through the cell while the sums are in the L1 cache. The gradients of the weights are one product of all steps,
// after.
#include "backends/cpu/kernels/recurrent/recurrent.h"
#include "backends/cpu/kernels/tensor_kernels.h"
#include "backends/cpu/simd/math.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kBlocksTogether = 4;
constexpr int64_t kTileFloats = kTileBatch * kBlocksTogether * kLanes;

F32 through_sigmoid(F32 y, F32 dy) { return dy * y * (splat(1.0f) - y); }
F32 through_tanh(F32 y, F32 dy) { return dy * (splat(1.0f) - y * y); }

// Inputs: weight, h, dh; activations of an LSTM and a GRU; c and dc of an LSTM. Outputs: gates, first h; of a GRU the
// gradient by what the state adds, of an LSTM that of the first c.
template <RecurrentCell kCell>
class RecurrentGradient : public Kernel {
 public:
  static constexpr int64_t kGates = recurrent_gates(kCell);
  static constexpr bool kLstm = kCell == RecurrentCell::kLstm, kGru = kCell == RecurrentCell::kGru;

  // `constant_dc`: the gradient of the states c is one number, as when only the last one has a gradient.
  RecurrentGradient(const RecurrentShape& shape, bool constant_dc, int workers)
      : shape_(shape), schedule_(shape, workers, kBlocksTogether), constant_dc_(constant_dc) {
    const int64_t depth = kGates * shape.hidden;
    packed_floats_ = packed_columns_floats(shape.blocks() * kLanes, depth);
    scratch_bytes = static_cast<size_t>(packed_floats_ + shape.batch * shape.hidden) * sizeof(float);
    implementation = "recurrent_gradient f32";
    const auto states = static_cast<double>(shape.steps * shape.batch * shape.hidden);
    flops = states * kGates * (2.0 * static_cast<double>(shape.hidden) + 10);
    bytes = 4 * (states * (kGates * 2 + 4) + static_cast<double>(packed_floats_));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    auto* packed = static_cast<float*>(launch.scratch);
    const int64_t hidden = shape_.hidden, depth = kGates * hidden;
    const auto* weight = static_cast<const float*>(launch.inputs[0].data);
    worker.parallel_for(depth, 32, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        for (int64_t v = 0; v < shape_.blocks(); ++v) {
          const int count = static_cast<int>(std::min<int64_t>(kLanes, hidden - v * kLanes));
          store(packed + packed_offset(v, k, depth), load_some(weight + k * hidden + v * kLanes, count));
        }
      }
    });
    worker.barrier();
    if (worker.stopped()) return;
    // Step s of these is s steps from the end; the last one has no cell to go through.
    schedule_.run(shape_.steps + 1, worker,
                  [&](int64_t step, const StateTile& tile) { back(launch, packed, shape_.steps - step, tile); });
  }

 private:
  // The gradient of state s, and of the pre-activations that led to it.
  void back(const abi::Launch& launch, const float* packed, int64_t s, const StateTile& tile) const {
    alignas(64) float sums[kTileFloats];
    const int64_t hidden = shape_.hidden, depth = kGates * hidden, vectors = tile.block_end - tile.block;
    const bool is_last = s == shape_.steps;
    if (!is_last) {
      const auto* gates = static_cast<const float*>(launch.outputs[kGru ? 2 : 0].data);
      recurrent_product({.a = gates + (shape_.step_row(s) * shape_.batch + tile.row) * depth,
                         .rows = tile.row_end - tile.row,
                         .depth = depth,
                         .packed = packed,
                         .first = tile.block,
                         .vectors = vectors},
                        sums);
    }
    float* carried = static_cast<float*>(launch.scratch) + packed_floats_;
    const int64_t state = shape_.state_row(s) * shape_.batch;
    for (int64_t row = tile.row; row < tile.row_end; ++row) {
      for (int64_t block = tile.block; block < tile.block_end; ++block) {
        const int64_t unit = block * kLanes;
        Unit at{.row = row, .unit = unit, .state = (state + row) * hidden + unit, .s = s};
        at.count = static_cast<int>(std::min<int64_t>(kLanes, hidden - unit));
        at.carried = carried + row * hidden + unit;
        at.dh = load_some(static_cast<const float*>(launch.inputs[2].data) + at.state, at.count);
        if (!is_last) {
          at.dh += load(sums + ((row - tile.row) * vectors + block - tile.block) * kLanes);
          if constexpr (kGru) at.dh += load_some(at.carried, at.count);
        }
        if constexpr (kLstm) {
          const auto* dc = static_cast<const float*>(launch.inputs[5].data);
          at.dc = constant_dc_ ? splat(*dc) : load_some(dc + at.state, at.count);
          if (!is_last) at.dc += load_some(at.carried, at.count);
        }
        if (s > 0) {
          apply(launch, at);
        } else {
          store_some(static_cast<float*>(launch.outputs[1].data) + row * hidden + unit, at.dh, at.count);
          if constexpr (kLstm)
            store_some(static_cast<float*>(launch.outputs[2].data) + row * hidden + unit, at.dc, at.count);
        }
      }
    }
  }

  struct Unit {
    int64_t row, unit;
    int64_t state;  // where it is in the states
    int64_t s;
    int count = 0;
    float* carried = nullptr;  // what goes to the state before besides the product: of c, or by z of a GRU
    F32 dh = zero_f32(), dc = zero_f32();
  };

  void apply(const abi::Launch& launch, const Unit& at) const {
    const int64_t hidden = shape_.hidden, step = shape_.step_row(at.s - 1) * shape_.batch + at.row;
    const int64_t before = (shape_.state_row(at.s - 1) * shape_.batch + at.row) * hidden + at.unit;
    const int count = at.count;
    float* gates = static_cast<float*>(launch.outputs[0].data) + step * kGates * hidden + at.unit;
    const auto* h = static_cast<const float*>(launch.inputs[1].data);
    if constexpr (kCell == RecurrentCell::kTanh) {
      store_some(gates, through_tanh(load_some(h + at.state, count), at.dh), count);
    } else if constexpr (kCell == RecurrentCell::kRelu) {
      store_some(gates, zero_unless(zero_f32() < load_some(h + at.state, count), at.dh), count);
    } else {
      const float* saved = static_cast<const float*>(launch.inputs[3].data) + step * 4 * hidden + at.unit;
      const auto activation = [&](int64_t gate) { return load_some(saved + gate * hidden, count); };
      if constexpr (kLstm) {
        const auto* c = static_cast<const float*>(launch.inputs[4].data);
        const F32 i = activation(0), f = activation(1), g = activation(2), o = activation(3);
        const F32 t = tanh(load_some(c + at.state, count));
        const F32 dc = at.dc + through_tanh(t, at.dh * o);
        store_some(gates, through_sigmoid(i, dc * g), count);
        store_some(gates + hidden, through_sigmoid(f, dc * load_some(c + before, count)), count);
        store_some(gates + 2 * hidden, through_tanh(g, dc * i), count);
        store_some(gates + 3 * hidden, through_sigmoid(o, at.dh * t), count);
        store_some(at.carried, dc * f, count);
      } else {
        float* sums = static_cast<float*>(launch.outputs[2].data) + step * kGates * hidden + at.unit;
        const F32 r = activation(0), z = activation(1), n = activation(2);
        const F32 dn = through_tanh(n, at.dh * (splat(1.0f) - z)), dr = through_sigmoid(r, dn * activation(3));
        const F32 dz = through_sigmoid(z, at.dh * (load_some(h + before, count) - n));
        for (float* to : {gates, sums}) {
          store_some(to, dr, count);
          store_some(to + hidden, dz, count);
        }
        store_some(gates + 2 * hidden, dn, count);
        store_some(sums + 2 * hidden, dn * r, count);
        store_some(at.carried, at.dh * z, count);
      }
    }
  }

  RecurrentShape shape_;
  RecurrentSchedule schedule_;
  bool constant_dc_;
  int64_t packed_floats_ = 0;
};

bool is_one_number(const abi::TensorView& x) {
  return is_strided(x) && x.dtype == DType::f32 && x.rank == 3 && x.strides[0] == 0 && x.strides[1] == 0 &&
         x.strides[2] == 0;
}

}  // namespace

KernelPointer make_recurrent_gradient(const abi::KernelRequest& request, const MakeContext& context) {
  RecurrentShape s;
  if (request.input_count < 3 || !read_recurrent(request, request.inputs[1], s)) return nullptr;
  const bool has_cell = s.cell == RecurrentCell::kLstm, is_gru = s.cell == RecurrentCell::kGru;
  if (!has_operands(request, has_cell ? 6 : is_gru ? 4 : 3, has_cell || is_gru ? 3 : 2)) return nullptr;
  const auto has_states = [&](int input) {
    return has_shape(request.inputs[input], DType::f32, {s.steps + 1, s.batch, s.hidden});
  };
  if (!has_shape(request.inputs[0], DType::f32, {s.gates() * s.hidden, s.hidden}) || !has_states(1) || !has_states(2))
    return nullptr;
  const bool constant_dc = has_cell && is_one_number(request.inputs[5]);
  if ((has_cell || is_gru) && !has_shape(request.inputs[3], DType::f32, {s.steps, s.batch, 4 * s.hidden}))
    return nullptr;
  if (has_cell && (!has_states(4) || (!constant_dc && !has_states(5)))) return nullptr;
  switch (s.cell) {
    case RecurrentCell::kTanh:
      return std::make_unique<RecurrentGradient<RecurrentCell::kTanh>>(s, constant_dc, context.workers);
    case RecurrentCell::kRelu:
      return std::make_unique<RecurrentGradient<RecurrentCell::kRelu>>(s, constant_dc, context.workers);
    case RecurrentCell::kLstm:
      return std::make_unique<RecurrentGradient<RecurrentCell::kLstm>>(s, constant_dc, context.workers);
    case RecurrentCell::kGru:
      return std::make_unique<RecurrentGradient<RecurrentCell::kGru>>(s, constant_dc, context.workers);
  }
  return nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
