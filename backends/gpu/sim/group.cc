// Collectives of simulated devices: every rank waits for the others' sources, and for the others' reads before it
// writes, with the events that a real one would need.
#include <cstring>
#include <memory>
#include <vector>

#include "backends/gpu/sim/objects.h"
#include "src/base/half.h"

namespace gabbro::gpu::api {

struct Group {
  std::vector<Context*> contexts;
  std::vector<Event> events;
};

namespace {

float read_element(const void* values, int64_t i, DType dtype) {
  if (dtype == DType::f32) return static_cast<const float*>(values)[i];
  const uint16_t bits = static_cast<const uint16_t*>(values)[i];
  return dtype == DType::f16 ? half_bits_to_float(bits) : bfloat_bits_to_float(bits);
}

void write_element(void* values, int64_t i, DType dtype, float value) {
  if (dtype == DType::f32) {
    static_cast<float*>(values)[i] = value;
  } else {
    static_cast<uint16_t*>(values)[i] = dtype == DType::f16 ? float_to_half_bits(value) : float_to_bfloat_bits(value);
  }
}

// Later work on any of the queues comes after all that was enqueued on all of them.
void join_queues(Group& group, const std::vector<Queue*>& queues) {
  for (size_t i = 0; i < queues.size(); ++i) record(queues[i], &group.events[i]);
  for (Queue* queue : queues) {
    for (Event& event : group.events) wait(queue, &event);
  }
}

// Each rank makes `bytes` for its target out of all sources [source_bytes]: make(result).
template <class Make>
void collect(Group& group, const char* name, const std::vector<Queue*>& queues, const void* const* sources,
             size_t source_bytes, void* const* targets, size_t bytes, const Make& make) {
  join_queues(group, queues);
  std::vector<std::shared_ptr<std::vector<std::byte>>> results;
  for (Queue* queue : queues) {
    std::vector<Access> reads;
    for (size_t i = 0; i < queues.size(); ++i) reads.push_back({sources[i], source_bytes, false});
    queue->declare(name, reads);
    const auto result = results.emplace_back(std::make_shared<std::vector<std::byte>>(bytes));
    queue->enqueue([result, make] { make(*result); });
  }
  join_queues(group, queues);
  for (size_t i = 0; i < queues.size(); ++i) {
    const Access write = {targets[i], bytes, true};
    queues[i]->declare(name, {&write, 1});
    queues[i]->enqueue([result = results[i], target = targets[i]] {
      if (!result->empty()) std::memcpy(target, result->data(), result->size());
    });
  }
}

Group* make_group(const std::vector<Context*>& contexts) {
  return new Group{.contexts = contexts, .events = std::vector<Event>(contexts.size())};
}

void destroy_group(Group* group) { delete group; }

void all_reduce(Group* group, const std::vector<Queue*>& queues, const void* const* sources, void* const* targets,
                DType dtype, int64_t elements, abi::Reduction reduction) {
  const std::vector<const void*> all(sources, sources + queues.size());
  const size_t bytes = dtype_bytes(dtype, static_cast<size_t>(elements));
  collect(*group, "all_reduce", queues, sources, bytes, targets, bytes, [=](std::vector<std::byte>& result) {
    for (int64_t i = 0; i < elements; ++i) {
      float value = read_element(all[0], i, dtype);
      for (size_t rank = 1; rank < all.size(); ++rank) {
        const float other = read_element(all[rank], i, dtype);
        value = reduction == abi::Reduction::kSum ? value + other : value < other ? other : value;
      }
      write_element(result.data(), i, dtype, value);
    }
  });
}

void all_gather(Group* group, const std::vector<Queue*>& queues, const void* const* sources, void* const* targets,
                size_t bytes) {
  const std::vector<const void*> all(sources, sources + queues.size());
  collect(*group, "all_gather", queues, sources, bytes, targets, bytes * all.size(),
          [=](std::vector<std::byte>& result) {
            for (size_t rank = 0; rank < all.size() && bytes > 0; ++rank)
              std::memcpy(result.data() + rank * bytes, all[rank], bytes);
          });
}

constexpr Collectives kCollectives = {make_group, destroy_group, all_reduce, all_gather};

}  // namespace

const Collectives* collectives() { return &kCollectives; }

}  // namespace gabbro::gpu::api
