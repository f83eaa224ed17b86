#include "src/models/weights/cut_tensors.h"

#include <utility>

#include "src/models/weights/weight_memory.h"
#include "src/ops/ops.h"

namespace gabbro::llm {
namespace {

using Pieces = std::vector<std::shared_ptr<nn::Linear>>;

class RowPieces final : public nn::Linear {
 public:
  explicit RowPieces(Pieces pieces) : nn::Linear(pieces.front()->weight), pieces_(std::move(pieces)) {}

  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> results;
    for (const std::shared_ptr<nn::Linear>& piece : pieces_) results.push_back(piece->forward(x));
    return concat(results, results.front().shape().rank() - 1);
  }

 private:
  Pieces pieces_;
};

class ColumnPieces final : public nn::Linear {
 public:
  ColumnPieces(Pieces pieces, IndexRanges columns)
      : nn::Linear(pieces.front()->weight), pieces_(std::move(pieces)), columns_(std::move(columns)) {}

  Tensor forward(const Tensor& x) override {
    Tensor result;
    int64_t first = 0;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const Tensor y = pieces_[i]->forward(slice(x, x.shape().rank() - 1, first, columns_[i].count));
      result = result.defined() ? result + y : y;
      first += columns_[i].count;
    }
    return result;
  }

 private:
  Pieces pieces_;
  IndexRanges columns_;
};

// With neighbors as one range.
IndexRanges merged_ranges(const IndexRanges& ranges) {
  IndexRanges result;
  for (const IndexRange& range : ranges) {
    if (!result.empty() && result.back().first + result.back().count == range.first) {
      result.back().count += range.count;
    } else {
      result.push_back(range);
    }
  }
  return result;
}

}  // namespace

Tensor tensor_rows(WeightSource& weights, const std::string& name, const std::vector<int64_t>& shape,
                   const IndexRanges& rows, const TransformersLayout& theirs) {
  if (weights.shard() == nullptr) return weights.tensor(name, shape, theirs);
  const std::vector<float> all = weights.values(name, shape, theirs);
  const int64_t width = std::ssize(all) / shape.front();
  std::vector<int64_t> part = shape;
  part.front() = 0;
  std::vector<float> some;
  for (const IndexRange& range : rows) {
    const auto first = all.begin() + range.first * width;
    some.insert(some.end(), first, first + range.count * width);
    part.front() += range.count;
  }
  return weights.memory() != nullptr ? weights.memory()->tensor(some, Shape(part)) : Tensor();
}

std::shared_ptr<nn::Linear> linear_rows(WeightSource& weights, const std::string& prefix, MatrixSize size,
                                        const IndexRanges& rows, const TransformersLayout& theirs) {
  if (weights.shard() == nullptr) return weights.linear(prefix, size, theirs);
  size.is_cut = true;
  Pieces pieces;
  for (const IndexRange& range : merged_ranges(rows)) {
    size.row_range = range;
    pieces.push_back(weights.linear(prefix, size, theirs));
  }
  return pieces.size() == 1 ? pieces.front() : std::make_shared<RowPieces>(std::move(pieces));
}

std::shared_ptr<nn::Linear> linear_columns(WeightSource& weights, const std::string& prefix, MatrixSize size,
                                           const IndexRanges& columns, const TransformersLayout& theirs) {
  if (weights.shard() == nullptr) return weights.linear(prefix, size, theirs);
  size.is_cut = true;
  Pieces pieces;
  const IndexRanges ranges = merged_ranges(columns);
  for (const IndexRange& range : ranges) {
    size.column_range = range;
    // The bias is counted once.
    pieces.push_back(pieces.empty() ? weights.linear(prefix, size, theirs)
                                    : weights.projection(prefix + ".weight", size, theirs));
  }
  if (pieces.size() == 1) return pieces.front();
  return std::make_shared<ColumnPieces>(std::move(pieces), ranges);
}

Tensor padded_columns(const Tensor& x, int64_t before, int64_t after) {
  const auto zeros = [&](int64_t count) {
    std::vector<int64_t> lengths(x.shape().lengths().begin(), x.shape().lengths().end());
    lengths.back() = count;
    return cast(broadcast_to(scalar(x.device(), 0), Shape(lengths)), x.dtype());
  };
  std::vector<Tensor> parts;
  if (before > 0) parts.push_back(zeros(before));
  parts.push_back(x);
  if (after > 0) parts.push_back(zeros(after));
  return concat(parts, x.shape().rank() - 1);
}

}  // namespace gabbro::llm
