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

void DecodeStep::make(const std::shared_ptr<Device>& device, int64_t sequences, int64_t pages, size_t groups,
                      bool has_slots) {
  constexpr size_t kMultiple = 256;  // bytes, as tensors of the device have
  list_bytes_ = round_up(static_cast<size_t>(sequences) * sizeof(int32_t), kMultiple);
  const auto table_size = static_cast<size_t>(sequences * pages);
  for (Turn& turn : turns_) {
    turn.memory = device->allocate_host((1 + kInputs) * list_bytes_ + groups * table_size * sizeof(int32_t));
    turn.done.emplace(device);
  }
  const std::shared_ptr<void> memory = device->allocate(kInputs * list_bytes_);
  lists_.clear();
  for (size_t input = 0; input < kInputs; ++input) {
    std::byte* const place = static_cast<std::byte*>(memory.get()) + input * list_bytes_;
    lists_.push_back(device->tensor_in({memory, place}, DType::i32, Shape{sequences}));
  }
  if (!has_slots) lists_[kSlots] = Tensor();
  held_tables_.assign(groups, std::vector<int32_t>(table_size, 0));
  std::vector<Tensor> tables;
  for (const std::vector<int32_t>& zeros : held_tables_)
    tables.push_back(device->upload(DType::i32, Shape{sequences, pages}, zeros.data()));
  page_tables_ = std::move(tables);
}

llm::Step DecodeStep::inputs() const {
  return {.ids = lists_[kIds],
          .places = TokenPositions{.positions = lists_[kPositions],
                                   .sequence = lists_[kSequences],
                                   .page_table = page_tables_.front(),
                                   .slots = lists_[kSlots],
                                   .separate = true},
          .page_tables = page_tables_};
}

std::span<int32_t> DecodeStep::list(int turn, int number) {
  std::byte* const memory = static_cast<std::byte*>(turns_[static_cast<size_t>(turn)].memory.get());
  const auto count = static_cast<size_t>(lists_.front().shape().elements());
  return {reinterpret_cast<int32_t*>(memory + static_cast<size_t>(number) * list_bytes_), count};
}

void DecodeStep::wait_all(const std::atomic<bool>* cancel) {
  for (Turn& turn : turns_) {
    if (turn.done) turn.done->synchronize(cancel);
  }
}

void DecodeStep::upload_changes(Stream& stream, size_t group, const std::vector<int32_t>& table) {
  std::vector<int32_t>& held = held_tables_[group];
  const auto first = std::ranges::mismatch(table, held).in1 - table.begin();
  if (first == std::ssize(table)) return;
  auto last = std::ssize(table);
  while (table[static_cast<size_t>(last - 1)] == held[static_cast<size_t>(last - 1)]) --last;
  int32_t* const host = list(turn_, 1 + kInputs).data() + group * table.size() + first;
  std::copy(table.begin() + first, table.begin() + last, host);
  stream.copy_to_device(static_cast<int32_t*>(page_tables_[group].state().storage.get()) + first, host,
                        static_cast<size_t>(last - first) * sizeof(int32_t));
  held = table;
}

Tensor DecodeStep::enqueue(const std::vector<std::vector<int32_t>>& tables,
                           const std::function<std::vector<Tensor>()>& compute) {
  Device& device = *lists_.front().device();
  Stream& stream = device.state().compute_stream(device);
  const int after = 1 - turn_;
  try {
    stream.copy_to_device(lists_[kIds].state().storage.get(), next(kIds).data(), kInputs * list_bytes_);
    for (size_t group = 0; group < tables.size(); ++group) upload_changes(stream, group, tables[group]);
    const std::vector<Tensor> results = compute();
    for (size_t i = 1; i < results.size(); ++i) {
      const std::span<int32_t> target = list(after, static_cast<int>(i) - 1);
      stream.copy_to_host(target.data(), results[i].state().storage.get(), target.size_bytes());
    }
    stream.record(*turns_[static_cast<size_t>(after)].done);
    turn_ = after;
    return results.front();
  } catch (...) {
    stream.synchronize();  // no event says when the lists have been read
    throw;
  }
}

bool DecodeStep::next_rows(std::span<const sampling::Row> rows) {
  if (!row_inputs_.is_made()) row_inputs_.make(lists_.front().device(), lists_.front().shape().elements());
  return row_inputs_.fill(turn_, rows);
}

void DecodeStep::upload_rows() {
  Device& device = *lists_.front().device();
  row_inputs_.upload(device.state().compute_stream(device), turn_);
}

std::span<const int32_t> DecodeStep::found(int turn, const std::atomic<bool>* cancel) {
  turns_[static_cast<size_t>(turn)].done->synchronize(cancel);
  return list(turn, 0);
}

void QueuedStep::forget(const std::shared_ptr<SequenceState>& sequence) {
  for (Row& row : rows) {
    if (row.sequence == sequence) row.sequence.reset();
  }
}

}  // namespace gabbro
