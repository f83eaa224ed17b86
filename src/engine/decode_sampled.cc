// Steps whose tokens samplers choose, on the device where it has all of their steps.
#include <algorithm>

#include "gabbro/graph/eval.h"
#include "src/base/error.h"
#include "src/engine/engine_state.h"
#include "src/engine/runner.h"

namespace gabbro {
namespace {

std::vector<sampling::Row> parameters_of(std::span<Sampler* const> samplers, int ahead, bool takes_masks) {
  std::vector<sampling::Row> rows;
  for (const Sampler* const sampler : samplers)
    rows.push_back(sampler != nullptr ? sampler->row(ahead, takes_masks) : sampling::Row{});
  return rows;
}

int64_t wanted_rows(std::span<const Chunk> chunks) {
  int64_t rows = 0;
  for (const Chunk& chunk : chunks) rows += chunk.wanted();
  return rows;
}

}  // namespace

std::span<const int32_t> Runner::step_tokens(std::span<const Chunk> chunks, std::span<Sampler* const> samplers,
                                             const std::atomic<bool>* cancel, bool goes_on) {
  if (wanted_rows(chunks) != std::ssize(samplers))
    throw bad_input("a step of {} rows needs a sampler for each, not {}", wanted_rows(chunks), samplers.size());
  const auto is_greedy = [](const Sampler* sampler) { return sampler == nullptr || sampler->is_greedy(); };
  if (std::ranges::all_of(samplers, is_greedy)) return step_greedy(chunks, cancel, goes_on);
  std::span<const int32_t> ids;
  run_step(
      chunks, cancel, [&] { ids = decode_sampled(chunks, samplers, goes_on, cancel); },
      [&](const Tensor& logits, int64_t) { ids = sample(logits, samplers, cancel); });
  for (Sampler* const sampler : samplers) {
    if (sampler != nullptr && sampler->row(0, takes_masks()).on_device) sampler->take_draw();
  }
  return ids;
}

std::span<const int32_t> Runner::decode_sampled(std::span<const Chunk> chunks, std::span<Sampler* const> samplers,
                                                bool goes_on, const std::atomic<bool>* cancel) {
  const auto has_mask = [](const Sampler* sampler) { return sampler != nullptr && sampler->has_mask(); };
  // Masks depend on the token before, and are made while the device computes the logits.
  if (std::ranges::any_of(samplers, has_mask)) return sample(decode(chunks, cancel), samplers, cancel);
  const std::vector<sampling::Row> rows = parameters_of(samplers, 0, false);
  if (!chooses_on_device(rows)) return sample(decode(chunks, cancel), samplers, cancel);
  std::vector<sampling::Row> next_rows;
  if (goes_on) next_rows = parameters_of(samplers, 1, false);
  if (!chooses_on_device(next_rows)) next_rows.clear();
  greedy_ = decode_ids(chunks, rows, next_rows, cancel);
  return greedy_;
}

// Logits in host memory are masked where they are read.
bool Runner::takes_masks() const { return !engine_->state_->loaded.output_device()->host_accessible(); }

// First the rows that the device can sample, then each other one by its sampler.
std::span<const int32_t> Runner::sample(const Tensor& logits, std::span<Sampler* const> samplers,
                                        const std::atomic<bool>* cancel) {
  logits_ = logits;
  greedy_.assign(samplers.size(), -1);
  if (samplers.empty()) return greedy_;
  Device& device = *engine_->state_->loaded.output_device();
  const std::vector<sampling::Row> rows = parameters_of(samplers, 0, takes_masks());
  if (std::ranges::any_of(rows, &sampling::Row::on_device)) {
    std::vector<sampling::Row> padded = rows;  // as the logits of a step of single tokens
    padded.resize(static_cast<size_t>(logits.shape()[0]));
    for (sampling::Row& row : padded) {
      if (!row.on_device) row = {};
    }
    const Tensor choices = sampling::masked_logits(logits, padded);
    const Tensor tokens = sample_tokens(choices, sampling::upload_rows(device, padded)).tokens;
    eval(std::span(&tokens, 1), cancel);
    const auto* const found =
        static_cast<const int32_t*>(copy_.of(tokens.state().storage.get(), rows.size() * sizeof(int32_t), cancel));
    std::copy_n(found, rows.size(), greedy_.begin());
  }
  const auto width = static_cast<size_t>(engine_->state_->loaded.facts.vocabulary);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].on_device) continue;
    const auto* const memory = static_cast<const float*>(logits.state().storage.get()) + i * width;
    greedy_[i] =
        samplers[i]->sample_if_any({static_cast<const float*>(copy_.of(memory, width * sizeof(float), cancel)), width});
  }
  return greedy_;
}

}  // namespace gabbro
