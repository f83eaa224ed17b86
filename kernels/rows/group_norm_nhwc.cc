// GroupNorm of images whose channels are last, in two launches: the moments of slices of an image's places, which the
// image's last block merges; then the result. A thread has the same vector of channels in several places. Sums are of
// distances from a channel's first element of the slice, or from a group's first mean, so that nothing cancels where
// the mean is far from 0.
#include "kernels/rows/group_norm_nhwc.h"

#include "kernels/elementwise/elementwise.h"
#include "kernels/rows/row_vectors.h"

namespace gabbro::gpu::GABBRO_GPU {

// Merges the moments of parts of a group; several lanes may merge. A part has a count, a mean and the sum of squared
// distances from its mean. Means are added as distances from one origin (Chan et al. 1979).
struct Spread {
  float origin, count = 0, sum = 0, squares = 0;

  GPU_FUNCTION explicit Spread(float first_mean) : origin(first_mean) {}
  GPU_FUNCTION void add(float part_count, float mean, float part_squares) {
    const float distance = mean - origin, moment = part_count * distance;
    count += part_count;
    sum += moment;
    squares += fma(moment, distance, part_squares);
  }
  // Adds up what `lanes` neighboring lanes have; all of the wave call this.
  GPU_FUNCTION void share(u32 lanes) {
    for (u32 step = 1; step < lanes; step *= 2) {
      count += shuffle_xor(count, step);
      sum += shuffle_xor(sum, step);
      squares += shuffle_xor(squares, step);
    }
  }
  GPU_FUNCTION float mean() const { return origin + sum / count; }
  GPU_FUNCTION float squared_distances() const { return max_of(squares - sum * (sum / count), 0.0f); }
};

// The lanes of a block that share a group: a power of two, within a wave.
struct GroupTeam {
  u32 lanes;
  i32 lane, first, step;  // the first group of this thread, and the way to its next one

  GPU_FUNCTION explicit GroupTeam(i32 groups) : lanes(1) {
    while (lanes < 32 && 2 * lanes * static_cast<u32>(groups) <= kNormThreads) lanes *= 2;
    lane = static_cast<i32>(thread_index() % lanes);
    first = static_cast<i32>(thread_index() / lanes);
    step = kNormThreads / static_cast<i32>(lanes);
  }
};

// How the threads of a block share the vectors of places: `lanes` places at a time.
template <class T>
struct NormShare {
  static constexpr i32 kElements = RowVector<T>::kElements;
  i32 vectors, lanes, lane, first;

  GPU_FUNCTION explicit NormShare(i32 channels) : vectors(channels / kElements) {
    lanes = vectors < kNormThreads ? kNormThreads / vectors : 1;
    lane = static_cast<i32>(thread_index()) / vectors;
    first = vectors < kNormThreads ? static_cast<i32>(thread_index()) % vectors : static_cast<i32>(thread_index());
    if (vectors >= kNormThreads) lane = 0;
    if (lane >= lanes) first = vectors;  // a thread without a part
  }
};

template <class T>
GPU_FUNCTION inline RowVector<T> load_elements(const GroupNormNhwcArgs& a, const T* from) {
  if (a.loose == 0) return *reinterpret_cast<const RowVector<T>*>(from);
  RowVector<T> vector;
#pragma unroll
  for (int e = 0; e < RowVector<T>::kElements; ++e) vector.value[e] = from[e];
  return vector;
}

// The last block of an image to come here puts its slices together, in their order.
GPU_FUNCTION inline void merge_slices(const GroupNormNhwcArgs& a, i32 image, const FloatPair* partials) {
  GPU_SHARED(u32, last, 1);
  release_block();
  if (thread_index() == 0) {
    last[0] = atomic_increment(a.arrived + image) + 1 == static_cast<u32>(a.slices) ? 1 : 0;
    acquire_for_block();
  }
  barrier();
  if (last[0] == 0) return;
  acquire();
  if (thread_index() == 0) a.arrived[image] = 0;  // for the next launch
  const GroupTeam team(a.groups);
  const i32 lanes = static_cast<i32>(team.lanes);
  const float each = static_cast<float>(a.channels / a.groups);
  for (i32 begin = 0; begin < a.groups; begin += team.step) {
    const i32 g = min_of(begin + team.first, a.groups - 1);  // lanes past the end do what the last ones do
    Spread all(load_shared_result(partials + g).a);
#pragma unroll 8
    for (i32 s = team.lane; s < a.slices; s += lanes) {
      const FloatPair part = load_shared_result(partials + s * a.groups + g);
      all.add(static_cast<float>(min_of(a.slice, a.places - s * a.slice)) * each, part.a, part.b);
    }
    all.share(team.lanes);
    if (team.lane == 0)
      a.groups_of_images[image * a.groups + g] = {all.mean(),
                                                  1 / sqrt(all.squared_distances() / all.count + a.epsilon)};
  }
}

template <class T>
GPU_FUNCTION inline void group_norm_nhwc_moments(const GroupNormNhwcArgs& a) {
  constexpr i32 kElements = RowVector<T>::kElements, kMost = kMostNormChannels;
  static_assert(kNormThreads * kElements <= kMost);
  GPU_SHARED(float, means, kMost);
  GPU_SHARED(float, squares, kMost);
  const NormShare<T> share(a.channels);
  const i32 image = static_cast<i32>(block_index().y), slice = static_cast<i32>(block_index().x);
  const i32 begin = slice * a.slice, count = min_of(a.slice, a.places - begin);
  const T* const x = static_cast<const T*>(a.x) + (static_cast<i64>(image) * a.places + begin) * a.channels;
  for (i32 v = share.first; v < share.vectors; v += kNormThreads) {
    float sum[kElements] = {}, square[kElements] = {}, origin[kElements];
    const auto place = [&](i32 p) { return load_elements(a, x + static_cast<i64>(p) * a.channels + v * kElements); };
    const RowVector<T> start = place(0);
#pragma unroll
    for (int e = 0; e < kElements; ++e) origin[e] = to_float(start.value[e]);
    i32 own = 0;
#pragma unroll 4
    for (i32 p = share.lane; p < count; p += share.lanes, ++own) {
      const RowVector<T> vector = place(p);
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const float distance = to_float(vector.value[e]) - origin[e];
        sum[e] += distance;
        square[e] = fma(distance, distance, square[e]);
      }
    }
    const float inverse = own == 0 ? 0 : 1 / static_cast<float>(own);
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const i32 at = share.lane * a.channels + v * kElements + e;
      const float mean = sum[e] * inverse;
      means[at] = origin[e] + mean;
      squares[at] = max_of(square[e] - sum[e] * mean, 0.0f);
    }
  }
  barrier();
  FloatPair* const partials = a.partials + static_cast<i64>(image) * a.slices * a.groups;
  const GroupTeam team(a.groups);
  const i32 each = a.channels / a.groups, parts = share.lanes * each;
  for (i32 first = 0; first < a.groups; first += team.step) {
    const i32 g = min_of(first + team.first, a.groups - 1);
    Spread all(means[g * each]);
    for (i32 i = team.lane; i < parts; i += static_cast<i32>(team.lanes)) {
      const i32 lane = i / each, at = lane * a.channels + g * each + i % each;
      const float own = static_cast<float>(lane < count ? (count - lane + share.lanes - 1) / share.lanes : 0);
      all.add(own, means[at], squares[at]);
    }
    all.share(team.lanes);
    if (team.lane == 0) partials[slice * a.groups + g] = {all.mean(), all.squared_distances()};
  }
  merge_slices(a, image, partials);
}

template <class T>
GPU_FUNCTION inline void group_norm_nhwc(const GroupNormNhwcArgs& a) {
  constexpr i32 kElements = RowVector<T>::kElements;
  const NormShare<T> share(a.channels);
  const i32 image = static_cast<i32>(block_index().y), begin = static_cast<i32>(block_index().x) * a.slice;
  const i32 end = min_of(begin + a.slice, a.places), each = a.channels / a.groups;
  const i64 offset = static_cast<i64>(image) * a.places * a.channels;
  const T* const x = static_cast<const T*>(a.x) + offset;
  T* const y = static_cast<T*>(a.y) + offset;
  for (i32 v = share.first; v < share.vectors; v += kNormThreads) {
    float mean[kElements], factor[kElements], weight[kElements], bias[kElements];
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const i32 channel = v * kElements + e;
      const FloatPair group = a.groups_of_images[image * a.groups + channel / each];
      mean[e] = group.a;
      factor[e] = group.b;
      weight[e] = a.weight[channel];
      bias[e] = a.bias[channel];
    }
#pragma unroll 2
    for (i32 p = begin + share.lane; p < end; p += share.lanes) {
      const i64 at = static_cast<i64>(p) * a.channels + v * kElements;
      const RowVector<T> from = load_elements(a, x + at);
      RowVector<T> to;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const float normal = fma((to_float(from.value[e]) - mean[e]) * factor[e], weight[e], bias[e]);
        to.value[e] = from_float<T>(a.silu != 0 ? Silu::of(normal) : normal);
      }
      if (a.loose == 0) {
        *reinterpret_cast<RowVector<T>*>(y + at) = to;
        continue;
      }
#pragma unroll
      for (int e = 0; e < kElements; ++e) y[at + e] = to.value[e];
    }
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_GROUP_NORM_NHWC(name, T)                                                                 \
  GPU_KERNEL(group_norm_nhwc_moments_##name, gabbro::gpu::kNormThreads, gabbro::gpu::GroupNormNhwcArgs, \
             group_norm_nhwc_moments<T>)                                                                \
  GPU_KERNEL(group_norm_nhwc_##name, gabbro::gpu::kNormThreads, gabbro::gpu::GroupNormNhwcArgs, group_norm_nhwc<T>)
GABBRO_GROUP_NORM_NHWC(f32, float)
GABBRO_GROUP_NORM_NHWC(f16, gabbro::gpu::Half)
GABBRO_GROUP_NORM_NHWC(bf16, gabbro::gpu::BFloat)
