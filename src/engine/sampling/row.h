// The inputs with which the op `sampling` (src/ops/sampling.h) chooses one token as Sampler::sample() does.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "gabbro/engine/sampler.h"
#include "src/backend/stream.h"
#include "src/ops/sampling.h"

namespace gabbro::sampling {

// A token whose logit changes.
struct Edit {
  int32_t token = -1;
  int32_t count = 0;  // in the penalty window
  float bias = 0;

  bool operator==(const Edit&) const = default;
};

// The default takes the largest logit.
struct Row {
  bool on_device = true;  // false: the op does not have all steps; the rest is unset
  std::array<float, 7> settings{0, 0, 1, -std::numeric_limits<float>::infinity(), 1, 0, 0};  // SamplingRows::settings
  uint64_t draw = 0;
  std::vector<Edit> edits{};
  const std::vector<uint64_t>* allowed = nullptr;  // as Sampler::allow(), for masked_logits(); null: all tokens

  bool operator==(const Row&) const = default;
};

// Whether the op has all steps of these options.
bool can_sample_on_device(const SamplerOptions& options);

// Edits of a row that the op's inputs have room for.
inline constexpr size_t kMostEdits = 256;

// The op's inputs for S rows, written again for each step. As the lists of DecodeStep, the host's memory is used by
// turns: it may be filled again for a step when the step before the last has ended.
class RowInputs {
 public:
  bool is_made() const { return !parts_.empty(); }
  void make(const std::shared_ptr<Device>& device, int64_t rows);
  // At most S rows; the others are greedy. Returns whether any has edits.
  bool fill(int turn, std::span<const Row> rows);
  // Enqueues the copies of what fill() wrote.
  void upload(Stream& stream, int turn);
  SamplingRows inputs(bool has_edits) const;

 private:
  struct Part {
    Tensor tensor;
    size_t offset;  // in bytes, of the host's memory
    size_t bytes;
  };
  template <class T>
  T* host(int turn, size_t part) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory_[static_cast<size_t>(turn)].get()) +
                                parts_[part].offset);
  }

  enum PartIndex : size_t { kSettings, kDraws, kEdits, kBias };
  std::vector<Part> parts_;
  std::array<std::shared_ptr<void>, 2> memory_;
  std::array<bool, 2> has_edits_{};
  size_t rows_ = 0;
};

// The logits [S, V] f32 with -inf where a row does not allow a token.
Tensor masked_logits(const Tensor& logits, std::span<const Row> rows);

// The op's inputs for these rows, for one step. No row may have more than kMostEdits.
SamplingRows upload_rows(Device& device, std::span<const Row> rows);

}  // namespace gabbro::sampling
