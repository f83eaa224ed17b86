#include "src/engine/sampling/row.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "gabbro/ops/create.h"
#include "gabbro/ops/elementwise.h"
#include "gabbro/ops/shapes.h"
#include "src/backend/device.h"
#include "src/base/round_up.h"
#include "src/engine/sampling/penalties.h"
#include "src/engine/sampling/truncation.h"

namespace gabbro::sampling {
namespace {

// The settings, draws, edits and bias of rows, at these places.
struct Target {
  float* settings;
  uint32_t* draws;
  int32_t* edits;
  float* bias;
};

void write(const Row& row, size_t index, const Target& to) {
  std::ranges::copy(row.settings, to.settings + index * row.settings.size());
  to.draws[2 * index] = static_cast<uint32_t>(row.draw);
  to.draws[2 * index + 1] = static_cast<uint32_t>(row.draw >> 32);
  if (to.edits == nullptr) return;
  for (size_t i = 0; i < kMostEdits; ++i) {
    const Edit edit = i < row.edits.size() ? row.edits[i] : Edit{};
    const size_t at = index * kMostEdits + i;
    to.edits[2 * at] = edit.token;
    to.edits[2 * at + 1] = edit.count;
    to.bias[at] = edit.bias;
  }
}

bool any_edits(std::span<const Row> rows) {
  return std::ranges::any_of(rows, [](const Row& row) { return !row.edits.empty(); });
}

constexpr auto kSettingCount = static_cast<int64_t>(std::tuple_size_v<decltype(Row::settings)>);
constexpr auto kEditCount = static_cast<int64_t>(kMostEdits);

}  // namespace

bool can_sample_on_device(const SamplerOptions& o) {
  std::set<int32_t> biased;
  for (const auto& [token, bias] : o.logit_bias) {
    if (!biased.insert(token).second) return false;  // two sums round differently from one
  }
  if (o.top_logprobs >= 0) return false;
  const auto on_host = [&](const auto& step) { return !step.on_device && step.is_on(o); };
  if (std::ranges::any_of(penalties(), on_host)) return false;
  return o.temperature == 0 || (std::ranges::none_of(truncations(), on_host) && o.mirostat == 0);
}

void RowInputs::make(const std::shared_ptr<Device>& device, int64_t rows) {
  constexpr size_t kMultiple = 256;  // bytes, as tensors of the device have
  rows_ = static_cast<size_t>(rows);
  const std::pair<DType, Shape> shapes[] = {{DType::f32, Shape{rows, kSettingCount}},
                                            {DType::i32, Shape{rows, 2}},
                                            {DType::i32, Shape{rows, kEditCount, 2}},
                                            {DType::f32, Shape{rows, kEditCount}}};
  std::vector<Part> parts;
  size_t size = 0;
  for (const auto& [dtype, shape] : shapes) {
    const auto bytes = static_cast<size_t>(shape.elements()) * sizeof(int32_t);
    const std::vector<std::byte> zeros(bytes);
    parts.push_back({.tensor = device->upload(dtype, shape, zeros.data()), .offset = size, .bytes = bytes});
    size += round_up(bytes, kMultiple);
  }
  for (std::shared_ptr<void>& memory : memory_) memory = device->allocate_host(size);
  parts_ = std::move(parts);
}

bool RowInputs::fill(int turn, std::span<const Row> rows) {
  const bool edits = any_edits(rows);
  const Target target{.settings = host<float>(turn, kSettings),
                      .draws = host<uint32_t>(turn, kDraws),
                      .edits = edits ? host<int32_t>(turn, kEdits) : nullptr,
                      .bias = edits ? host<float>(turn, kBias) : nullptr};
  for (size_t i = 0; i < rows_; ++i) write(i < rows.size() ? rows[i] : Row{}, i, target);
  has_edits_[static_cast<size_t>(turn)] = edits;
  return edits;
}

void RowInputs::upload(Stream& stream, int turn) {
  const size_t count = has_edits_[static_cast<size_t>(turn)] ? kBias + 1 : kDraws + 1;
  for (size_t i = 0; i < count; ++i)
    stream.copy_to_device(parts_[i].tensor.state().storage.get(), host<std::byte>(turn, i), parts_[i].bytes);
}

SamplingRows RowInputs::inputs(bool has_edits) const {
  SamplingRows rows{.settings = parts_[kSettings].tensor, .draws = parts_[kDraws].tensor};
  if (has_edits) {
    rows.edits = parts_[kEdits].tensor;
    rows.bias = parts_[kBias].tensor;
  }
  return rows;
}

Tensor masked_logits(const Tensor& logits, std::span<const Row> rows) {
  if (std::ranges::all_of(rows, [](const Row& row) { return row.allowed == nullptr; })) return logits;
  constexpr int64_t kBits = 32;
  const int64_t count = logits.shape()[0], vocabulary = logits.shape()[1], words = (vocabulary + kBits - 1) / kBits;
  std::vector<uint32_t> masks(static_cast<size_t>(count * words), ~uint32_t{0});
  for (size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].allowed == nullptr) continue;
    const std::vector<uint64_t>& allowed = *rows[row].allowed;
    uint32_t* const mask = masks.data() + row * static_cast<size_t>(words);
    for (size_t i = 0; i < static_cast<size_t>(words); ++i)
      mask[i] = i / 2 < allowed.size() ? static_cast<uint32_t>(allowed[i / 2] >> (i % 2 * kBits)) : 0;
  }
  const DevicePointer device = logits.device();
  const auto number = [&](int64_t value) { return scalar(device, static_cast<double>(value), DType::i32); };
  const Tensor places = reshape(arange(device, 0, kBits, 1, DType::i32), Shape{1, 1, kBits});
  const Tensor packed = device->upload(DType::i32, Shape{count, words, 1}, masks.data());
  const Tensor bits = bitwise_and(right_shift(packed, places), number(1));  // [S, W, 32]
  const Tensor all = reshape(equal(bits, number(1)), Shape{count, words * kBits});
  return where(slice(all, 1, 0, vocabulary), logits, scalar(device, -std::numeric_limits<double>::infinity()));
}

SamplingRows upload_rows(Device& device, std::span<const Row> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  const bool has_edits = any_edits(rows);
  std::vector<float> settings(rows.size() * static_cast<size_t>(kSettingCount)), bias;
  std::vector<uint32_t> draws(rows.size() * 2);
  std::vector<int32_t> edits;
  if (has_edits) {
    edits.resize(rows.size() * kMostEdits * 2);
    bias.resize(rows.size() * kMostEdits);
  }
  const Target target{.settings = settings.data(),
                      .draws = draws.data(),
                      .edits = has_edits ? edits.data() : nullptr,
                      .bias = has_edits ? bias.data() : nullptr};
  for (size_t i = 0; i < rows.size(); ++i) write(rows[i], i, target);
  SamplingRows inputs{.settings = device.upload(DType::f32, Shape{count, kSettingCount}, settings.data()),
                      .draws = device.upload(DType::i32, Shape{count, 2}, draws.data())};
  if (has_edits) {
    inputs.edits = device.upload(DType::i32, Shape{count, kEditCount, 2}, edits.data());
    inputs.bias = device.upload(DType::f32, Shape{count, kEditCount}, bias.data());
  }
  return inputs;
}

}  // namespace gabbro::sampling
