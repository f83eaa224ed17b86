// A wait that is missing is reported, whatever the order in which the simulator does the work; the same program with
// the wait runs, and computes what it should. Through the plugin's table.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backends/gpu/sim/memory.h"
#include "backends/gpu/sim/ordering.h"
#include "gabbro/backend_abi.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu {
namespace {

using abi::StatusCode;

constexpr int64_t kOrderedCount = 257;
constexpr size_t kOrderedBytes = kOrderedCount * sizeof(float);

// A device with a copy stream besides its compute stream, and what the programs do on it. The first call that fails
// is remembered, and nothing else is checked.
class Machine {
 public:
  explicit Machine(uint64_t seed) {
    ::setenv("GABBRO_SIM_STREAM_SEED", std::to_string(seed).c_str(), 1);
    note(backend().open(0, nullptr, &device_));
    note(backend().create_stream(device_, &copies));
    for (abi::Event*& event : events) note(backend().create_event(device_, &event));
    view_ = {.shape = {kOrderedCount}, .strides = {1}, .rank = 1, .dtype = DType::f32};
    const abi::KernelRequest request = {
        .op = "neg", .inputs = &view_, .input_count = 1, .outputs = &view_, .output_count = 1};
    note(backend().find_kernel(device_, &request, &negate_));
  }
  ~Machine() {
    for (abi::Stream* stream : {copies, compute}) static_cast<void>(backend().synchronize(device_, stream));
    for (void* memory : pinned_) backend().free_host(device_, memory);
    for (void* memory : memory_) backend().free(device_, compute, memory);
    backend().release_kernel(device_, negate_.handle);
    for (abi::Event* event : events) backend().destroy_event(device_, event);
    backend().destroy_stream(device_, copies);
    backend().close(device_);
    ::unsetenv("GABBRO_SIM_STREAM_SEED");
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  static const abi::Backend& backend() { return *gabbro_backend(); }

  // [kOrderedCount] of pinned memory, all of one value, and of the device.
  float* host(float value) {
    void* memory = nullptr;
    note(backend().allocate_host(device_, kOrderedBytes, &memory));
    pinned_.push_back(memory);
    std::fill_n(static_cast<float*>(memory), kOrderedCount, value);
    return static_cast<float*>(memory);
  }
  void* device() {
    void* memory = nullptr;
    note(backend().allocate(device_, compute, kOrderedBytes, &memory));
    memory_.push_back(memory);
    return memory;
  }
  void* allocate(abi::Stream* stream) {
    void* memory = nullptr;
    note(backend().allocate(device_, stream, kOrderedBytes, &memory));
    return memory;
  }
  void free(abi::Stream* stream, void* memory) {
    std::erase(memory_, memory);
    backend().free(device_, stream, memory);
  }
  void free_host(float* memory) {
    std::erase(pinned_, memory);
    backend().free_host(device_, memory);
  }

  void upload(abi::Stream* stream, void* target, const float* from) {
    note(backend().copy_to_device(device_, stream, target, from, kOrderedBytes));
  }
  void download(abi::Stream* stream, float* to, const void* source) {
    note(backend().copy_to_host(device_, stream, to, source, kOrderedBytes));
  }
  // y = -x
  void negate(abi::Stream* stream, const void* x, void* y) {
    abi::TensorView in = view_, out = view_;
    in.data = const_cast<void*>(x);
    out.data = y;
    const abi::Launch launch = {
        .kernel = negate_.handle, .inputs = &in, .outputs = &out, .input_count = 1, .output_count = 1};
    note(backend().execute(device_, stream, &launch, 1, nullptr));
  }
  // A row of 640 in Q8_0: 680 bytes, and 1024 packed.
  void pack(abi::Stream* stream, const void* source, void* target) {
    const abi::PackRequest request = {DType::q8_0, 1, 640, 0, 1};
    note(backend().pack(device_, stream, &request, source, target));
  }
  void record(abi::Stream* stream, int event) { note(backend().record(device_, stream, events[event])); }
  void wait(abi::Stream* stream, int event) { note(backend().wait(device_, stream, events[event])); }
  void synchronize(abi::Stream* stream) { note(backend().synchronize(device_, stream)); }
  void synchronize_event(int event) { note(backend().synchronize_event(device_, events[event])); }

  abi::Stream* const compute = nullptr;
  abi::Stream* copies = nullptr;
  std::array<abi::Event*, 3> events{};

  std::string error;  // of the first call that failed

 private:
  void note(const abi::Status& status) {
    if (status.code != StatusCode::kOk && error.empty()) error = status.message;
  }

  abi::Device* device_ = nullptr;
  abi::BoundKernel negate_{};
  abi::TensorView view_{};
  std::vector<void*> memory_, pinned_;
};

// A program that is right with its wait, returning the result that it downloads; `ordered` says whether it waits.
struct Program {
  const char* name;
  std::vector<std::string> words;  // of the message where the wait is missing
  std::function<float(Machine&, bool ordered)> run;
  float expected = 0;
};

const std::vector<Program>& programs() {
  static const std::vector<Program> all = {
      {"copy_then_kernel",
       {"copy to the device", "reads", "writes"},
       [](Machine& m, bool ordered) {
         float *in = m.host(3), *out = m.host(0);
         void *x = m.device(), *y = m.device();
         m.upload(m.copies, x, in);
         m.record(m.copies, 0);
         if (ordered) m.wait(m.compute, 0);
         m.negate(m.compute, x, y);
         m.download(m.compute, out, y);
         m.synchronize(m.compute);
         return out[kOrderedCount - 1];
       },
       -3},
      {"kernel_then_copy_to_host",
       {"copy to the host", "writes"},
       [](Machine& m, bool ordered) {
         float *in = m.host(4), *out = m.host(0);
         void *x = m.device(), *y = m.device();
         m.upload(m.compute, x, in);
         m.negate(m.compute, x, y);
         m.record(m.compute, 0);
         if (ordered) m.wait(m.copies, 0);
         m.download(m.copies, out, y);
         m.synchronize(m.copies);
         return out[0];
       },
       -4},
      {"kernel_then_kernel_on_another_stream",
       {"stream"},
       [](Machine& m, bool ordered) {
         float *in = m.host(5), *out = m.host(0);
         void *x = m.device(), *y = m.device(), *z = m.device();
         m.upload(m.compute, x, in);
         m.negate(m.compute, x, y);
         m.record(m.compute, 0);
         if (ordered) m.wait(m.copies, 0);
         m.negate(m.copies, y, z);
         m.download(m.copies, out, z);
         m.synchronize(m.copies);
         return out[7];
       },
       5},
      {"a_slot_of_a_ring_is_filled_while_it_is_read",
       {"copy to the device", "writes", "reads"},
       [](Machine& m, bool ordered) {
         float *first = m.host(6), *second = m.host(7), *out = m.host(0);
         void *slot = m.device(), *y = m.device();
         m.upload(m.copies, slot, first);
         m.record(m.copies, 0);
         m.wait(m.compute, 0);
         m.negate(m.compute, slot, y);
         m.record(m.compute, 1);
         if (ordered) m.wait(m.copies, 1);
         m.upload(m.copies, slot, second);
         m.synchronize(m.copies);
         m.download(m.compute, out, y);
         m.synchronize(m.compute);
         return out[0];
       },
       -6},
      {"memory_is_freed_before_its_use_is_over",
       {"free", "reads"},
       [](Machine& m, bool ordered) {
         float *in = m.host(8), *out = m.host(0);
         void *x = m.device(), *y = m.device();
         m.upload(m.compute, x, in);
         m.negate(m.compute, x, y);
         m.record(m.compute, 0);
         if (ordered) m.wait(m.copies, 0);
         m.free(m.copies, x);
         m.download(m.compute, out, y);
         m.synchronize(m.compute);
         return out[0];
       },
       -8},
      {"weights_are_packed_before_they_are_there",
       {"pack q8_0", "copy to the device"},
       [](Machine& m, bool ordered) {
         float* in = m.host(9);
         void *source = m.device(), *packed = m.device();
         m.upload(m.copies, source, in);
         m.record(m.copies, 0);
         if (ordered) m.wait(m.compute, 0);
         m.pack(m.compute, source, packed);
         m.synchronize(m.compute);
         return 1.0f;
       },
       1},
      {"an_event_is_recorded_too_early",
       {"copy to the device"},
       [](Machine& m, bool ordered) {
         float *in = m.host(10), *out = m.host(0);
         void *x = m.device(), *y = m.device();
         if (!ordered) m.record(m.copies, 0);
         m.upload(m.copies, x, in);
         if (ordered) m.record(m.copies, 0);
         m.wait(m.compute, 0);
         m.negate(m.compute, x, y);
         m.download(m.compute, out, y);
         m.synchronize(m.compute);
         return out[0];
       },
       -10},
      {"another_event_is_waited_for",
       {"copy to the device"},
       [](Machine& m, bool ordered) {
         float *in = m.host(11), *other = m.host(12), *out = m.host(0);
         void *w = m.device(), *x = m.device(), *y = m.device();
         m.upload(m.copies, w, other);
         m.record(m.copies, 0);
         m.upload(m.copies, x, in);
         m.record(m.copies, 1);
         m.wait(m.compute, ordered ? 1 : 0);
         m.negate(m.compute, x, y);
         m.download(m.compute, out, y);
         m.synchronize(m.compute);
         return out[0];
       },
       -11},
      {"a_wait_comes_before_the_record",
       {"copy to the device"},
       [](Machine& m, bool ordered) {
         float *in = m.host(13), *out = m.host(0);
         void *x = m.device(), *y = m.device();
         m.upload(m.copies, x, in);
         if (!ordered) m.wait(m.compute, 2);  // not an event yet
         m.record(m.copies, 2);
         if (ordered) m.wait(m.compute, 2);
         m.negate(m.compute, x, y);
         m.download(m.compute, out, y);
         m.synchronize(m.compute);
         return out[0];
       },
       -13},
      {"two_streams_write_one_place",
       {"writes"},
       [](Machine& m, bool ordered) {
         float *first = m.host(14), *second = m.host(15), *out = m.host(0);
         void* x = m.device();
         m.upload(m.compute, x, first);
         m.record(m.compute, 0);
         if (ordered) m.wait(m.copies, 0);
         m.upload(m.copies, x, second);
         m.download(m.copies, out, x);
         m.synchronize(m.copies);
         return out[0];
       },
       15},
      {"memory_is_used_after_it_was_freed",
       {"which was freed"},
       [](Machine& m, bool ordered) {
         float *in = m.host(16), *out = m.host(0);
         void *x = m.device(), *y = m.device();
         m.upload(m.compute, x, in);
         if (!ordered) m.free(m.compute, x);
         m.negate(m.compute, x, y);
         if (ordered) m.free(m.compute, x);
         m.download(m.compute, out, y);
         m.synchronize(m.compute);
         return out[0];
       },
       -16},
      {"pinned_memory_is_freed_before_it_was_copied",
       {"free", "by the host", "copy to the device"},
       [](Machine& m, bool ordered) {
         float *in = m.host(17), *out = m.host(0);
         void* x = m.device();
         m.upload(m.copies, x, in);
         if (ordered) m.synchronize(m.copies);
         m.free_host(in);
         m.download(m.copies, out, x);
         m.synchronize(m.copies);
         return out[0];
       },
       17},
      {"the_host_waits_for_another_event",
       {"free", "by the host", "copy to the host"},
       [](Machine& m, bool ordered) {
         float *in = m.host(18), *out = m.host(0);
         void* x = m.device();
         m.upload(m.copies, x, in);
         m.record(m.copies, 0);
         m.download(m.copies, out, x);
         m.record(m.copies, 1);
         m.synchronize_event(ordered ? 1 : 0);
         const float result = ordered ? out[0] : 0;
         m.free_host(out);
         m.synchronize(m.copies);
         return result;
       },
       18},
      {"the_host_fills_memory_again_that_is_being_copied",
       {"the host writes", "copy to the device"},
       [](Machine& m, bool ordered) {
         float *in = m.host(19), *out = m.host(0);
         void* x = m.device();
         m.upload(m.copies, x, in);
         if (ordered) m.synchronize(m.copies);
         in[kOrderedCount - 1] = 20;
         m.download(m.copies, out, x);
         m.synchronize(m.copies);
         return m.error.empty() ? out[kOrderedCount - 1] : 0;
       },
       19},
      {"the_host_reads_a_result_that_is_not_there",
       {"the host reads or writes", "copy to the host"},
       [](Machine& m, bool ordered) {
         float *in = m.host(21), *out = m.host(0);
         void *x = m.device(), *y = m.device();
         m.upload(m.compute, x, in);
         m.negate(m.compute, x, y);
         m.download(m.compute, out, y);
         if (ordered) m.synchronize(m.compute);
         const float result = out[5];
         m.synchronize(m.compute);
         return result;
       },
       -21},
  };
  return all;
}

class Ordered : public testing::TestWithParam<uint64_t> {
 protected:
  ~Ordered() override { EXPECT_EQ(sim::allocation_count(), 0U) << "a closed device left memory behind"; }
};

TEST_P(Ordered, MissingWaitsAreFound) {
  for (const Program& program : programs()) {
    Machine machine(GetParam());
    program.run(machine, false);
    EXPECT_NE(machine.error, "") << program.name;
    for (const std::string& word : program.words) {
      EXPECT_NE(machine.error.find(word), std::string::npos) << program.name << ": " << machine.error;
    }
  }
}

TEST_P(Ordered, TheSameProgramsRunWithTheWait) {
  for (const Program& program : programs()) {
    Machine machine(GetParam());
    EXPECT_EQ(program.run(machine, true), program.expected) << program.name;
    EXPECT_EQ(machine.error, "") << program.name;
  }
}

// A piece that is freed on one stream is handed out for another without a wait on the host, and safely.
TEST_P(Ordered, FreedMemoryIsReusedByAnotherStreamAfterAWait) {
  Machine m(GetParam());
  float *in = m.host(20), *other = m.host(21), *out = m.host(0);
  void *y = m.device(), *x = m.allocate(m.compute);
  m.upload(m.compute, x, in);
  m.negate(m.compute, x, y);
  m.free(m.compute, x);
  void* const again = m.allocate(m.copies);
  EXPECT_EQ(again, x);
  m.upload(m.copies, again, other);
  m.download(m.compute, out, y);
  m.synchronize(m.compute);
  EXPECT_EQ(out[0], -20);
  m.free(m.copies, again);
  EXPECT_EQ(m.error, "");
}

TEST(Ordering, KnowsBytesByTheirRange) {
  sim::Ordering ordering;
  std::array<std::byte, 100> memory{};
  const auto access = [&](size_t from, size_t bytes, bool writes) {
    return std::array<api::Access, 1>{{{memory.data() + from, bytes, writes}}};
  };
  const sim::Ordering::Actor a = ordering.add_stream(), b = ordering.add_stream();
  EXPECT_EQ(ordering.enqueue(a, "first", access(10, 20, true)), "");
  EXPECT_EQ(ordering.enqueue(b, "before", access(0, 10, true)), "");
  EXPECT_EQ(ordering.enqueue(b, "after", access(30, 70, false)), "");
  EXPECT_EQ(ordering.enqueue(b, "none", access(15, 0, true)), "");
  EXPECT_NE(ordering.enqueue(b, "first byte", access(10, 1, false)), "");
  EXPECT_NE(ordering.enqueue(b, "last byte", access(29, 5, false)), "");
  EXPECT_NE(ordering.enqueue(a, "over a read", access(50, 1, true)), "");
  EXPECT_EQ(ordering.enqueue(a, "read too", access(50, 1, false)), "");
  EXPECT_EQ(ordering.freed(a, memory.data() + 10, 20), "");
  EXPECT_EQ(ordering.enqueue(a, "none", access(12, 0, false)), "");
  EXPECT_NE(ordering.enqueue(a, "freed", access(12, 1, false)), "");
  ordering.allocated(memory.data() + 10, 20);
  EXPECT_EQ(ordering.enqueue(a, "another's", access(12, 1, false)), "");
}

// Three streams: an event carries what its stream has waited for.
TEST(Ordering, GoesThroughEventsOfOthers) {
  sim::Ordering ordering;
  std::array<std::byte, 8> memory{};
  const std::array<api::Access, 1> write{{{memory.data(), 8, true}}}, read{{{memory.data(), 8, false}}};
  const sim::Ordering::Actor a = ordering.add_stream(), b = ordering.add_stream(), c = ordering.add_stream();
  EXPECT_EQ(ordering.enqueue(a, "write", write), "");
  const sim::Clock written = ordering.time_of(a);
  const sim::Clock early = ordering.time_of(b);
  ordering.wait(b, written);
  const sim::Clock late = ordering.time_of(b);
  ordering.wait(c, early);
  EXPECT_NE(ordering.enqueue(c, "read", read), "");
  ordering.wait(c, late);
  EXPECT_EQ(ordering.enqueue(c, "read", read), "");
  EXPECT_NE(ordering.enqueue(a, "write again", write), "") << "c reads";
  ordering.host_waits(ordering.time_of(c));
  EXPECT_EQ(ordering.enqueue(a, "write again", write), "") << "the host has waited for c";
}

INSTANTIATE_TEST_SUITE_P(Seeds, Ordered, testing::Values(0, 1, 2, 3, 17, 4711));

}  // namespace
}  // namespace gabbro::gpu
