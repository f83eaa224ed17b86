// Collectives of simulated devices: every rank waits for the others' sources, and for the others' reads before it
// writes, with the events that a real one would need.
#include <cstdlib>
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

// A collective's name, and the bytes of each source and each target.
struct Collective {
  const char* name;
  size_t source_bytes;
  size_t target_bytes;
};

// Each rank makes the bytes of its target out of all sources: make(result).
template <class Make>
void collect(const Collective& what, Group& group, const std::vector<Queue*>& queues, const Buffers& buffers,
             const Make& make) {
  join_queues(group, queues);
  std::vector<std::shared_ptr<std::vector<std::byte>>> results;
  for (Queue* queue : queues) {
    std::vector<Access> reads;
    for (size_t i = 0; i < queues.size(); ++i) reads.push_back({buffers.sources[i], what.source_bytes, false});
    queue->declare(what.name, reads);
    const auto result = results.emplace_back(std::make_shared<std::vector<std::byte>>(what.target_bytes));
    queue->enqueue([result, make] { make(*result); });
  }
  join_queues(group, queues);
  for (size_t i = 0; i < queues.size(); ++i) {
    const Access write = {buffers.targets[i], what.target_bytes, true};
    queues[i]->declare(what.name, {&write, 1});
    queues[i]->enqueue([result = results[i], target = buffers.targets[i]] {
      if (!result->empty()) std::memcpy(target, result->data(), result->size());
    });
  }
}

Group* make_group(const std::vector<Context*>& contexts) {
  return new Group{.contexts = contexts, .events = std::vector<Event>(contexts.size())};
}

void destroy_group(Group* group) { delete group; }

void all_reduce(Group* group, const std::vector<Queue*>& queues, const Buffers& buffers, const Reduce& reduce) {
  const std::vector<const void*> all(buffers.sources, buffers.sources + queues.size());
  const size_t bytes = dtype_bytes(reduce.dtype, static_cast<size_t>(reduce.elements));
  collect({.name = "all_reduce", .source_bytes = bytes, .target_bytes = bytes}, *group, queues, buffers,
          [all, reduce](std::vector<std::byte>& result) {
            for (int64_t i = 0; i < reduce.elements; ++i) {
              float value = read_element(all[0], i, reduce.dtype);
              for (size_t rank = 1; rank < all.size(); ++rank) {
                const float other = read_element(all[rank], i, reduce.dtype);
                value = reduce.reduction == abi::Reduction::kSum ? value + other : value < other ? other : value;
              }
              write_element(result.data(), i, reduce.dtype, value);
            }
          });
}

void all_gather(Group* group, const std::vector<Queue*>& queues, const Buffers& buffers, size_t bytes) {
  const std::vector<const void*> all(buffers.sources, buffers.sources + queues.size());
  collect({.name = "all_gather", .source_bytes = bytes, .target_bytes = bytes * all.size()}, *group, queues, buffers,
          [all, bytes](std::vector<std::byte>& result) {
            for (size_t rank = 0; rank < all.size() && bytes > 0; ++rank)
              std::memcpy(result.data() + rank * bytes, all[rank], bytes);
          });
}

constexpr Collectives kCollectives = {make_group, destroy_group, all_reduce, all_gather};

}  // namespace

const Collectives* collectives() { return &kCollectives; }

// Only for a test that asks for them: kernels that wait for each other take the host's processors, each a thread.
std::string rank_sum_problem() {
  if (sim::Scheduler::shared().is_deferred()) return "the simulator does all work in one thread, in a random order";
  return std::getenv("GABBRO_SIM_RANK_SUMS") != nullptr ? "" : "the simulator adds up on the host";
}

void* allocate_shared(Context* context, size_t bytes) { return allocate(context, bytes); }
uint64_t ticks_per_second() { return uint64_t{1000} * 1000 * 1000; }

}  // namespace gabbro::gpu::api
