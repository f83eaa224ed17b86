#include "src/models/diffusion/row_store.h"

#include <algorithm>
#include <cmath>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/elementwise.h"
#include "gabbro/ops/reduce.h"
#include "gabbro/ops/shapes.h"
#include "src/backend/device.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {
namespace {

constexpr double kLargest = 32768;                              // of what is stored: half of f16's range
constexpr double kSmallestScale = 1e-30, kLargestScale = 1e34;  // rows of zeros have one too

}  // namespace

RowStore::RowStore(const Shape& shape, int64_t groups, const std::atomic<bool>* cancel)
    : shape_(shape), moments_(static_cast<size_t>(groups)), cancel_(cancel) {}

void RowStore::append(const Tensor& rows) {
  const int64_t count = rows.shape()[2], groups = std::ssize(moments_);
  const Tensor scale = clamp(max(abs(rows), kAllAxes) / kLargest, kSmallestScale, kLargestScale);  // []
  const Tensor grouped = reshape(rows, Shape{groups, channels() / groups * count * width()});      // [G, E]
  Tensor outputs[] = {cast(rows / scale, DType::f16), scale, mean(grouped, 1), var(grouped, 1, 0)};
  eval(outputs, cancel_);
  pieces_.push_back({.values = outputs[0], .scale = outputs[1], .first = written_, .rows = count});
  written_ += count;
  const std::vector<float> means = to_host<float>(outputs[2]), variances = to_host<float>(outputs[3]);
  for (size_t i = 0; i < moments_.size(); ++i) {
    // Chan et al. 1979.
    Moments& all = moments_[i];
    const auto added = static_cast<double>(grouped.shape()[1]);
    const double delta = means[i] - all.mean, total = all.count + added;
    all.squares += variances[i] * added + delta * delta * all.count * added / total;
    all.mean += delta * added / total;
    all.count = total;
  }
}

Tensor RowStore::read(int64_t from, int64_t to) const {
  std::vector<Tensor> parts;
  for (const Piece& piece : pieces_) {
    const int64_t first = std::max(from, piece.first), last = std::min(to, piece.first + piece.rows);
    if (first >= last) continue;
    parts.push_back(cast(slice(piece.values, 2, first - piece.first, last - first), DType::f32) * piece.scale);
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 2);
}

void RowStore::drop_before(int64_t row) {
  std::erase_if(pieces_, [row](const Piece& piece) { return piece.first + piece.rows <= row; });
}

RowStore::Affine RowStore::normalization(const nn::GroupNorm& norm) const {
  const std::vector<float> weight = to_host<float>(norm.weight), bias = to_host<float>(norm.bias);
  const size_t of_group = weight.size() / moments_.size();
  std::vector<float> scale, shift;
  for (size_t c = 0; c < weight.size(); ++c) {
    const Moments& group = moments_[c / of_group];
    const double factor = weight[c] / std::sqrt(group.squares / group.count + norm.options().eps);
    scale.push_back(static_cast<float>(factor));
    shift.push_back(static_cast<float>(bias[c] - group.mean * factor));
  }
  const Shape shape{1, channels(), 1, 1};
  Device& device = *norm.weight.device();
  return {.scale = device.upload(DType::f32, shape, scale.data()),
          .shift = device.upload(DType::f32, shape, shift.data())};
}

}  // namespace gabbro::diffusion
