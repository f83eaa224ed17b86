// Sums over devices that write into each other's memory (kernels/collective/all_reduce.h). Each rank enqueues its share
// on its own: the kernels wait for each other, the host does not. All ranks enqueue the same sums in the same order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/gpu/device.h"
#include "kernels/collective/all_reduce.h"

namespace gabbro::gpu {

class DirectSums {
 public:
  // Tests sums on the devices' compute streams, which have nothing to do. Null: there are none, and `problem` says
  // why, in one line.
  static std::unique_ptr<DirectSums> make(std::span<GpuDevice* const> devices, std::string& problem);
  ~DirectSums();  // the streams are done
  DirectSums(const DirectSums&) = delete;
  DirectSums& operator=(const DirectSums&) = delete;

  // The sums with this number, which no others of this process have had; null: they are gone.
  static const DirectSums* find(int64_t id);
  int64_t id() const { return id_; }

  // Elements [count] of one dtype: f32, f16 or bf16.
  struct Operands {
    const void* x;
    const void* addend;  // null: none
    void* y;             // may be x
    DType dtype;
    int64_t count;
  };
  // y = the sums of x over the ranks + the addend, which each rank has its own of.
  void enqueue(size_t rank, const Launcher& run, const Operands& operands) const;

  // Ends the waits of the kernels, whose results are undefined then, until begin(). From any thread.
  void stop();
  // After a stop, or a rank that was late: waits for the devices, and begins again.
  void begin();
  // The rank that a kernel has waited for in vain.
  std::optional<size_t> late_rank() const;

 private:
  struct Rank {
    GpuDevice* device;
    void* inbox = nullptr;             // words, flags, partials and sums
    void* counters = nullptr;          // kReduceBlocks, kWordBlocks, and the table of inboxes
    const api::Function* one_shot[3];  // by place_of() the dtype
    const api::Function* two_shot[3];
    const api::Function* words[3];
  };

  using Functions = const api::Function* (Rank::*)[3];

  explicit DirectSums(std::span<GpuDevice* const> devices);
  std::string connect();
  std::string allocate();
  std::string test();
  std::string test_rank(size_t rank);
  // A part of the sums, as long as these kernels can take.
  void enqueue_part(Functions functions, size_t rank, const Launcher& run, const Operands& operands) const;
  void clear(const Rank& rank) const;
  // With two ranks each stores the same in two shots as in one.
  bool has_two_shots() const { return ranks_.size() > 2; }
  int64_t word_capacity() const;
  int64_t capacity() const;
  size_t partial_elements() const;
  size_t word_bytes() const;
  size_t flag_bytes() const;
  ReduceInbox inbox_of(const Rank& rank) const;

  const int64_t id_;
  std::vector<Rank> ranks_;
  uint32_t most_blocks_ = kReduceBlocks;  // of a launch: each device runs them at once
  uint32_t* failure_ = nullptr;           // pinned: 1 + the late rank, or kStopped
};

}  // namespace gabbro::gpu
