#include "gabbro/nn/embedding.h"

#include "gabbro/nn/init.h"
#include "src/base/error.h"
#include "src/ops/grad.h"
#include "src/ops/index_rules.h"
#include "src/ops/rules.h"
#include "src/plan/eval.h"

namespace gabbro::nn {

namespace {

std::optional<int64_t> checked_padding(std::optional<int64_t> padding, int64_t rows) {
  if (!padding) return padding;
  if (*padding < -rows || *padding >= rows)
    throw bad_input("[embedding] padding_idx {} is not in a table of {} rows", *padding, rows);
  return *padding < 0 ? *padding + rows : *padding;
}

}  // namespace

Embedding::Embedding(const Factory& make, const EmbeddingOptions& o) {
  const int64_t rows = o.num_embeddings;
  if (rows < 1 || o.embedding_dim < 0) throw bad_input("[embedding] a table of {} rows of {}", rows, o.embedding_dim);
  padding_ = checked_padding(o.padding_idx, rows);
  Tensor table = init::normal(make, Shape{rows, o.embedding_dim});
  if (padding_ && make.weights == nullptr) {
    const Tensor places = iota(make.device, rows, DType::i32);
    table = where(reshape(equal(places, weak(places, *padding_)), Shape{rows, 1}), weak(table, 0), table);
    eval(std::span(&table, 1));
  }
  add_parameter(make, "weight", weight, table);
}

void Embedding::set_padding_idx(std::optional<int64_t> padding_idx) {
  padding_ = checked_padding(padding_idx, weight.shape()[0]);
}

Tensor Embedding::forward(const Tensor& ids) {
  require_index_dtype("embedding", ids);
  std::vector<int64_t> lengths = lengths_of(ids);
  const IndexUse use{"embedding"};
  Tensor flat = readable_indices(reshape(ids, Shape{ids.shape().elements()}), weight.shape()[0], use);  // [T]
  // Indices of i32 may still be negative, and are compared with the padding's.
  if (padding_ && ids.dtype() == DType::i32) flat = positions_of(flat, weight.shape()[0], index_attributes(use));
  Tensor rows = gather_rows(weight, flat, index_attributes(use));  // [T, C]
  if (padding_ && needs_gradient(rows)) {
    const Tensor padding = reshape(equal(flat, weak(flat, *padding_)), Shape{flat.shape()[0], 1});
    rows = where(padding, detach(rows), rows);
  }
  lengths.push_back(weight.shape()[1]);
  return reshape(rows, Shape(lengths));
}

}  // namespace gabbro::nn
