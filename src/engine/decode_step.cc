#include "src/engine/decode_step.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/base/round_up.h"

namespace gabbro {

DecodeStep::~DecodeStep() {
  try {
    wait_all();
  } catch (const Error&) {
    // The device failed: it reads and writes nothing more.
  }
}

void DecodeStep::make(std::span<const std::shared_ptr<Device>> devices, int64_t sequences, int64_t pages, size_t groups,
                      bool has_slots) {
  constexpr size_t kMultiple = 256;  // bytes, as tensors of the device have
  sequences_ = sequences;
  list_bytes_ = round_up(static_cast<size_t>(sequences) * sizeof(int32_t), kMultiple);
  const auto table_size = static_cast<size_t>(sequences * pages);
  for (Turn& turn : turns_) {
    turn.memory = devices.back()->allocate_host((1 + kInputs) * list_bytes_ + groups * table_size * sizeof(int32_t));
    for (const std::shared_ptr<Device>& device : devices) turn.done.emplace_back(device);
  }
  held_tables_.assign(groups, std::vector<int32_t>(table_size, 0));
  std::vector<DeviceInputs> made;
  for (const std::shared_ptr<Device>& device : devices) {
    DeviceInputs& inputs = made.emplace_back(DeviceInputs{.device = device, .lists = {}, .page_tables = {}});
    const std::shared_ptr<void> memory = device->allocate(kInputs * list_bytes_);
    for (size_t input = 0; input < kInputs; ++input) {
      std::byte* const place = static_cast<std::byte*>(memory.get()) + input * list_bytes_;
      inputs.lists.push_back(device->tensor_in({memory, place}, DType::i32, Shape{sequences}));
    }
    if (!has_slots) inputs.lists[kSlots] = Tensor();
    for (const std::vector<int32_t>& zeros : held_tables_)
      inputs.page_tables.push_back(device->upload(DType::i32, Shape{sequences, pages}, zeros.data()));
  }
  inputs_ = std::move(made);
}

llm::Step DecodeStep::inputs(size_t device) const {
  const DeviceInputs& on = inputs_[device];
  return {.ids = on.lists[kIds],
          .places = TokenPositions{.positions = on.lists[kPositions],
                                   .sequence = on.lists[kSequences],
                                   .page_table = on.page_tables.front(),
                                   .slots = on.lists[kSlots],
                                   .separate = true},
          .page_tables = on.page_tables};
}

std::span<int32_t> DecodeStep::list(int turn, int number) {
  std::byte* const memory = static_cast<std::byte*>(turns_[static_cast<size_t>(turn)].memory.get());
  const auto count = static_cast<size_t>(sequences_);
  return {reinterpret_cast<int32_t*>(memory + static_cast<size_t>(number) * list_bytes_), count};
}

void DecodeStep::wait_all(const std::atomic<bool>* cancel) {
  for (Turn& turn : turns_) {
    for (Event& done : turn.done) done.synchronize(cancel);
  }
}

void DecodeStep::upload_changes(size_t group, const std::vector<int32_t>& table) {
  std::vector<int32_t>& held = held_tables_[group];
  const auto first = std::ranges::mismatch(table, held).in1 - table.begin();
  if (first == std::ssize(table)) return;
  auto last = std::ssize(table);
  while (table[static_cast<size_t>(last - 1)] == held[static_cast<size_t>(last - 1)]) --last;
  int32_t* const host = list(turn_, 1 + kInputs).data() + group * table.size() + first;
  std::copy(table.begin() + first, table.begin() + last, host);
  for (const DeviceInputs& on : inputs_) {
    on.stream().copy_to_device(static_cast<int32_t*>(on.page_tables[group].state().storage.get()) + first, host,
                               static_cast<size_t>(last - first) * sizeof(int32_t));
  }
  held = table;
}

Tensor DecodeStep::enqueue(const std::vector<std::vector<int32_t>>& tables,
                           const std::function<std::vector<Tensor>()>& compute) {
  Stream& stream = inputs_.back().stream();  // whose work ends after that of the others
  const int after = 1 - turn_;
  try {
    for (const DeviceInputs& on : inputs_) {
      if (gets_ids(on)) on.stream().wait(turns_[static_cast<size_t>(turn_)].done.back());  // which writes the ids
      on.stream().copy_to_device(on.lists[kIds].state().storage.get(), next(kIds).data(), kInputs * list_bytes_);
    }
    for (size_t group = 0; group < tables.size(); ++group) upload_changes(group, tables[group]);
    const std::vector<Tensor> results = compute();
    for (size_t i = 1; i < results.size(); ++i) {
      const std::span<int32_t> target = list(after, static_cast<int>(i) - 1);
      stream.copy_to_host(target.data(), results[i].state().storage.get(), target.size_bytes());
    }
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].stream().record(turns_[static_cast<size_t>(after)].done[i]);
    turn_ = after;
    return results.front();
  } catch (const DeviceLost&) {
    throw;  // a wait for it may have no end, and the model computes nothing more
  } catch (...) {
    for (const DeviceInputs& on : inputs_) on.stream().synchronize();  // no event says when the lists have been read
    throw;
  }
}

bool DecodeStep::next_rows(std::span<const sampling::Row> rows) {
  if (!row_inputs_.is_made()) row_inputs_.make(inputs_.back().device, sequences_);
  return row_inputs_.fill(turn_, rows);
}

void DecodeStep::upload_rows() { row_inputs_.upload(inputs_.back().stream(), turn_); }

std::span<const int32_t> DecodeStep::found(int turn, const std::atomic<bool>* cancel) {
  wait(turn, inputs_.size() - 1, cancel);
  return list(turn, 0);
}

void QueuedStep::forget(const std::shared_ptr<SequenceState>& sequence) {
  for (Row& row : rows) {
    if (row.sequence == sequence) row.sequence.reset();
  }
}

}  // namespace gabbro
