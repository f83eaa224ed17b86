// A table of trained rows.
#pragma once

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

struct EmbeddingOptions {
  int64_t num_embeddings = 0, embedding_dim = 0;
  std::optional<int64_t> padding_idx{};  // a row that is zero at first, and gets no gradient; negative: from the end
};

// Integers [...], which are held within the table, to its rows [..., C].
class Embedding : public Layer {
 public:
  Embedding(const Factory& make, const EmbeddingOptions& options);
  Tensor forward(const Tensor& ids) override;
  std::optional<int64_t> padding_idx() const { return padding_; }
  void set_padding_idx(std::optional<int64_t> padding_idx);  // which changes no value of the table

  Tensor weight;  // [V, C]

 private:
  std::optional<int64_t> padding_;
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
