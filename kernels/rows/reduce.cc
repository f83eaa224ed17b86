// Reductions over the last axis; f16 and bf16 in f32. Integers wrap around. NaN: sum, prod, max and min give NaN,
// argmax and argmin find the first one; of equal elements they find the first. Over nothing: sum 0, prod 1, max and min
// the lowest and the highest number, argmax and argmin 0. A thread, a wave or a block takes a row; or a block takes as
// many adjacent rows as a wave has lanes.
#include "kernels/rows/reduce.h"

#include "kernels/elementwise/strided_access.h"
#include "kernels/rows/row_vectors.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class T>
struct Limits;
template <>
struct Limits<float> {
  GPU_FUNCTION static float lowest() { return bits_to_float(0xff800000); }   // -infinity
  GPU_FUNCTION static float highest() { return bits_to_float(0x7f800000); }  // infinity
};
template <>
struct Limits<i32> {
  GPU_FUNCTION static i32 lowest() { return -2147483647 - 1; }
  GPU_FUNCTION static i32 highest() { return 2147483647; }
};
template <>
struct Limits<i64> {
  GPU_FUNCTION static i64 lowest() { return -9223372036854775807 - 1; }
  GPU_FUNCTION static i64 highest() { return 9223372036854775807; }
};

GPU_FUNCTION inline float plus(float a, float b) { return a + b; }
GPU_FUNCTION inline i32 plus(i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) + static_cast<u32>(b)); }
GPU_FUNCTION inline i64 plus(i64 a, i64 b) { return static_cast<i64>(static_cast<u64>(a) + static_cast<u64>(b)); }
GPU_FUNCTION inline float times(float a, float b) { return a * b; }
GPU_FUNCTION inline i32 times(i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) * static_cast<u32>(b)); }
GPU_FUNCTION inline i64 times(i64 a, i64 b) { return static_cast<i64>(static_cast<u64>(a) * static_cast<u64>(b)); }

// The dtype in which elements are accumulated.
template <class T>
struct Computed {
  using Type = T;
  GPU_FUNCTION static T of(T value) { return value; }
};
template <>
struct Computed<Half> {
  using Type = float;
  GPU_FUNCTION static float of(Half value) { return to_float(value); }
};
template <>
struct Computed<BFloat> {
  using Type = float;
  GPU_FUNCTION static float of(BFloat value) { return to_float(value); }
};

// A reduction has a State, which starts somewhere, is made of an element, and is joined with another.
template <class E>
struct ValueReduction {
  using Element = E;
  using State = typename Computed<E>::Type;
  using Result = State;
  GPU_FUNCTION static State of(E value, i32) { return Computed<E>::of(value); }
  GPU_FUNCTION static Result result(State state) { return state; }
  GPU_FUNCTION static State other_lane(State state, u32 step) { return shuffle_xor(state, step); }
};
template <class E>
struct Sum : ValueReduction<E> {
  using State = typename ValueReduction<E>::State;
  GPU_FUNCTION static State start() { return 0; }
  GPU_FUNCTION static State join(State a, State b) { return plus(a, b); }
};
// Sums of i32 are i64.
template <>
struct Sum<i32> {
  using Element = i32;
  using State = i64;
  using Result = i64;
  GPU_FUNCTION static i64 start() { return 0; }
  GPU_FUNCTION static i64 of(i32 value, i32) { return value; }
  GPU_FUNCTION static i64 join(i64 a, i64 b) { return plus(a, b); }
  GPU_FUNCTION static i64 result(i64 state) { return state; }
  GPU_FUNCTION static i64 other_lane(i64 state, u32 step) { return shuffle_xor(state, step); }
};
template <class E>
struct Product : ValueReduction<E> {
  using State = typename ValueReduction<E>::State;
  GPU_FUNCTION static State start() { return 1; }
  GPU_FUNCTION static State join(State a, State b) { return times(a, b); }
};
template <class E>
struct Largest : ValueReduction<E> {
  using State = typename ValueReduction<E>::State;
  GPU_FUNCTION static State start() { return Limits<State>::lowest(); }
  GPU_FUNCTION static State join(State a, State b) { return a > b || a != a ? a : b; }
};
template <class E>
struct Smallest : ValueReduction<E> {
  using State = typename ValueReduction<E>::State;
  GPU_FUNCTION static State start() { return Limits<State>::highest(); }
  GPU_FUNCTION static State join(State a, State b) { return a < b || a != a ? a : b; }
};

template <class T>
struct Found {
  T value;
  i32 index;
};
template <class E, bool largest>
struct Position {
  using Element = E;
  using Value = typename Computed<E>::Type;
  using State = Found<Value>;
  using Result = i32;
  static constexpr i32 kNone = 2147483647;
  GPU_FUNCTION static State start() { return {largest ? Limits<Value>::lowest() : Limits<Value>::highest(), kNone}; }
  GPU_FUNCTION static State of(E value, i32 index) { return {Computed<E>::of(value), index}; }
  GPU_FUNCTION static Result result(State state) { return state.index == kNone ? 0 : state.index; }
  GPU_FUNCTION static State other_lane(State state, u32 step) {
    return {shuffle_xor(state.value, step), shuffle_xor(state.index, step)};
  }
  GPU_FUNCTION static State join(State a, State b) {
    const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
    if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
    if (a_is_nan || a.value == b.value) return a.index < b.index ? a : b;
    return (largest ? a.value > b.value : a.value < b.value) ? a : b;
  }
};

// Threads that work on a row: one thread, one wave or one block; or a lane of each wave, for as many rows as lanes.
enum class Team { kOneThread, kOneWave, kOneBlock, kLanes };

template <class F>
GPU_FUNCTION inline typename F::State join_wave(typename F::State state) {
  for (u32 step = 1; step < kWave; step *= 2) state = F::join(state, F::other_lane(state, step));
  return state;
}

// The state of the whole row, in thread 0 at least.
template <class F>
GPU_FUNCTION inline typename F::State join_block(typename F::State state) {
  GPU_SHARED(typename F::State, parts, kMaxWaves);
  state = join_wave<F>(state);
  if (lane() == 0) parts[wave_index()] = state;
  barrier();
  state = parts[0];
  for (u32 w = 1; w < block_size() / kWave; ++w) state = F::join(state, parts[w]);
  return state;
}

// The state of a lane's row, in the first wave.
template <class F>
GPU_FUNCTION inline typename F::State join_lanes(typename F::State state) {
  GPU_SHARED(typename F::State, parts, 256);
  parts[thread_index()] = state;
  barrier();
  if (wave_index() == 0) {
    for (u32 at = lane() + kWave; at < block_size(); at += kWave) state = F::join(state, parts[at]);
  }
  return state;
}

// The state of columns first, first + step, ... before `end`: four at a time, so that loads overlap and a sum's error
// grows slower.
template <class F>
GPU_FUNCTION inline typename F::State reduce_columns(const ReduceArgs& a, const typename F::Element* x, i64 first,
                                                     i64 step, i64 end) {
  constexpr int kParts = 4;
  typename F::State parts[kParts];
#pragma unroll
  for (int i = 0; i < kParts; ++i) parts[i] = F::start();
  for (i64 column = first; column < end; column += step * kParts) {
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      const i64 at = column + i * step;
      if (at < end) parts[i] = F::join(parts[i], F::of(x[at * a.column_stride], static_cast<i32>(at)));
    }
  }
  return F::join(F::join(parts[0], parts[1]), F::join(parts[2], parts[3]));
}

// For contiguous columns, in whole 16-byte vectors: vectors first, first + step, ...
template <class F>
GPU_FUNCTION inline typename F::State reduce_vectors(const typename F::Element* x, i64 first, i64 step, i64 begin,
                                                     i64 end) {
  using Vector = RowVector<typename F::Element>;
  constexpr int kParts = Vector::kElements;
  typename F::State parts[kParts];
#pragma unroll
  for (int i = 0; i < kParts; ++i) parts[i] = F::start();
  const auto* vectors = reinterpret_cast<const Vector*>(x + begin);
  const i64 count = (end - begin) / Vector::kElements;
#pragma unroll 4
  for (i64 p = first; p < count; p += step) {
    const Vector vector = vectors[p];
    const auto column = static_cast<i32>(begin + p * Vector::kElements);
#pragma unroll
    for (int i = 0; i < kParts; ++i) parts[i] = F::join(parts[i], F::of(vector.value[i], column + i));
  }
  auto state = parts[0];
#pragma unroll
  for (int i = 1; i < kParts; ++i) state = F::join(state, parts[i]);
  return state;
}

template <class F, Team team>
GPU_FUNCTION inline void reduce(const ReduceArgs& a) {
  i64 row, first, step;
  if constexpr (team == Team::kOneThread) {
    row = flat_index(), first = 0, step = 1;
  } else if constexpr (team == Team::kOneWave) {
    row = flat_block() * (block_size() / kWave) + wave_index(), first = lane(), step = kWave;
  } else if constexpr (team == Team::kOneBlock) {
    row = flat_block(), first = thread_index(), step = block_size();
  } else {
    row = flat_block() * kWave + lane(), first = wave_index(), step = block_size() / kWave;
  }
  const i64 part = block_index().y, begin = part * a.part_columns;
  const i64 end = min_of(begin + a.part_columns, a.columns);
  auto state = F::start();
  if (row < a.rows.total) {
    i64 offset;
    find_offsets<1>(a.rows, row, &offset);
    const auto* x = static_cast<const typename F::Element*>(a.x) + offset;
    constexpr bool along = team == Team::kOneWave || team == Team::kOneBlock;
    state = along && a.vectors ? reduce_vectors<F>(x, first, step, begin, end)
                               : reduce_columns<F>(a, x, begin + first, step, end);
  }
  if constexpr (team == Team::kOneWave) state = join_wave<F>(state);
  if constexpr (team == Team::kOneBlock) state = join_block<F>(state);
  if constexpr (team == Team::kLanes) state = join_lanes<F>(state);
  if (first != 0 || row >= a.rows.total) return;
  if (a.states != nullptr) {
    static_cast<typename F::State*>(a.states)[part * a.rows.total + row] = state;
  } else {
    static_cast<typename F::Result*>(a.y)[row] = F::result(state);
  }
}

// The parts of a row, by a wave.
template <class F>
GPU_FUNCTION inline void join_parts(const ReduceJoinArgs& a) {
  static_assert(sizeof(typename F::State) <= kLargestState);
  const i64 row = flat_block() * (block_size() / kWave) + wave_index();
  if (row >= a.rows) return;
  const auto* states = static_cast<const typename F::State*>(a.states);
  auto state = F::start();
  for (i64 part = lane(); part < a.parts; part += kWave) state = F::join(state, states[part * a.rows + row]);
  state = join_wave<F>(state);
  if (lane() == 0) static_cast<typename F::Result*>(a.y)[row] = F::result(state);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_REDUCE_TEAM(name, team, ...)      \
  GPU_KERNEL(name, 256, gabbro::gpu::ReduceArgs, \
             reduce<gabbro::gpu::GABBRO_GPU::__VA_ARGS__, gabbro::gpu::GABBRO_GPU::Team::team>)
#define GABBRO_REDUCE(name, ...)                             \
  GABBRO_REDUCE_TEAM(name##_thread, kOneThread, __VA_ARGS__) \
  GABBRO_REDUCE_TEAM(name##_wave, kOneWave, __VA_ARGS__)     \
  GABBRO_REDUCE_TEAM(name##_block, kOneBlock, __VA_ARGS__)   \
  GABBRO_REDUCE_TEAM(name##_lanes, kLanes, __VA_ARGS__)      \
  GPU_KERNEL(name##_join, 256, gabbro::gpu::ReduceJoinArgs, join_parts<gabbro::gpu::GABBRO_GPU::__VA_ARGS__>)
#define GABBRO_REDUCTIONS(name, T)                \
  GABBRO_REDUCE(sum_##name, Sum<T>)               \
  GABBRO_REDUCE(prod_##name, Product<T>)          \
  GABBRO_REDUCE(max_##name, Largest<T>)           \
  GABBRO_REDUCE(min_##name, Smallest<T>)          \
  GABBRO_REDUCE(argmax_##name, Position<T, true>) \
  GABBRO_REDUCE(argmin_##name, Position<T, false>)
GABBRO_REDUCTIONS(f32, float)
GABBRO_REDUCTIONS(f16, gabbro::gpu::Half)
GABBRO_REDUCTIONS(bf16, gabbro::gpu::BFloat)
GABBRO_REDUCTIONS(i32, gabbro::gpu::i32)
GABBRO_REDUCTIONS(i64, gabbro::gpu::i64)
