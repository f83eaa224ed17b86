// Steps of one token for each of several sequences, whose ids may come from the step before without the host.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gabbro/plan/compiled.h"
#include "src/backend/stream.h"
#include "src/engine/cache/state_pool.h"
#include "src/engine/sampling/row.h"
#include "src/models/llm/model.h"

namespace gabbro {

inline constexpr int32_t kNoSequence = -1;  // of padding: its keys are written nowhere, and its attention gives zeros

// The results of a step, which begin with its logits [S, V]. kLargest: also their largest_ids(), and the places of the
// largest values, which are ids of the vocabulary always; kSampled and kSampledWithEdits: in place of both the tokens
// that the op `sampling` chooses, without edits of logits and with them.
enum class DecodeResult { kLogits, kLargest, kSampled, kSampledWithEdits };
inline constexpr size_t kDecodeResults = 4;

// The step of S sequences, traced once: its inputs are overwritten in place, and its plan replayed.
class DecodeStep {
 public:
  // The inputs of each sequence.
  enum Input { kIds, kPositions, kSequences, kSlots, kInputs };

  DecodeStep() = default;
  ~DecodeStep();  // waits for what is queued, which reads and writes the host's memory
  DecodeStep(const DecodeStep&) = delete;
  DecodeStep& operator=(const DecodeStep&) = delete;

  bool is_made() const { return !inputs_.empty(); }
  // The inputs are on each of the devices; the last one has the logits. Tables of M pages are for each of the groups of
  // the cache's layers, and slots for models with states.
  void make(std::span<const std::shared_ptr<Device>> devices, int64_t sequences, int64_t pages, size_t groups,
            bool has_slots);
  llm::Step inputs(size_t device = 0) const;
  int64_t sequences() const { return sequences_; }  // S

  // Plans by result, of weights that stay on the device; traced when they are first wanted.
  std::array<std::optional<Compiled>, kDecodeResults> run;
  // With layers on several devices, the plans of all stages but the last: the hidden states [S, C] for the next one.
  std::vector<Compiled> run_stages;
  // With parts of each tensor on several devices, the plan of each rank: its part of the logits.
  std::vector<std::optional<Compiled>> run_ranks;
  const sampling::RowInputs& row_inputs() const { return row_inputs_; }
  // The parameters of the next step, to be filled before it. Returns whether it has edits.
  bool next_rows(std::span<const sampling::Row> rows);
  void upload_rows();  // for the step that is enqueued

  // The host's list [S] for the next step, to be filled before it. If that step follows a step of kLargest and takes
  // its ids, they are on the device already; otherwise call wait_all() first.
  std::span<int32_t> next(Input input) { return list(turn_, input + 1); }
  void wait_all(const std::atomic<bool>* cancel = nullptr);  // throws Error kInterrupted, as Event::synchronize

  // Enqueues the step. Its lists and the changed rows of its page tables [S, M] by group go to the device, compute()
  // gives the results of one of both plans, and the results of kLargest are copied to the host. Returns the logits.
  Tensor enqueue(const std::vector<std::vector<int32_t>>& tables, const std::function<std::vector<Tensor>()>& compute);
  // The turn whose found() has the result of the last enqueued step.
  int turn() const { return turn_; }
  static constexpr int kTurns = 2;
  // Waits for that step only, as Event::synchronize: for its work on one of the devices.
  void wait(int turn, size_t device, const std::atomic<bool>* cancel) {
    turns_[static_cast<size_t>(turn)].done[device].synchronize(cancel);
  }
  // Waits for the step on the last device. Returns its largest_ids(), valid until two more steps are enqueued.
  std::span<const int32_t> found(int turn, const std::atomic<bool>* cancel);

 private:
  // Pinned memory: what a step found, the lists for the step after it, beginning with its ids, and that one's page
  // tables. Steps take turns, so that a step can be queued while the one before it runs:
  //   the following step reads the host's lists, which may be written again when it has ended;
  //   a step writes its result when all that was queued before has read the memory, as a stream has an order.
  // So the host fills the lists for step k+1 once it has waited for step k-1, the last that read the same memory.
  struct Turn {
    std::shared_ptr<void> memory;
    std::deque<Event> done;  // the step that found, by device
  };

  // The inputs on a device.
  struct DeviceInputs {
    std::shared_ptr<Device> device;
    std::vector<Tensor> lists;        // i32 [S], consecutive, by Input
    std::vector<Tensor> page_tables;  // i32 [S, M]

    Stream& stream() const { return device->state().compute_stream(*device); }
  };

  // Whether the ids of a step may come from another device without the host.
  bool gets_ids(const DeviceInputs& on) const {
    const DeviceInputs& last = inputs_.back();
    return on.device != last.device && on.device->state().backend == last.device->state().backend;
  }
  std::span<int32_t> list(int turn, int number);
  void upload_changes(size_t group, const std::vector<int32_t>& table);

  std::vector<DeviceInputs> inputs_;
  int64_t sequences_ = 0;
  std::vector<std::vector<int32_t>> held_tables_;
  sampling::RowInputs row_inputs_;  // made when it is first wanted
  std::array<Turn, kTurns> turns_;
  int turn_ = 0;  // with the lists for the next step
  size_t list_bytes_ = 0;
};

// A step that was queued before it was asked for, with the ids that the step before it found.
struct QueuedStep {
  struct Row {
    std::shared_ptr<const SequenceState> sequence;  // null: changed since, other than by its last step
    int64_t length = 0;                             // of the sequence before the step
    int32_t token = 0;                              // that the step appends
    sampling::Row choice{};                         // how the next one is chosen
  };

  DecodeStep* step = nullptr;  // null: nothing is queued
  int turn = 0;
  std::vector<Row> rows;

  void forget(const std::shared_ptr<SequenceState>& sequence);
};

}  // namespace gabbro
