#include "src/models/weights/streamed_source.h"

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/models/weights/expert_tensors.h"
#include "src/models/weights/head_tensors.h"

namespace gabbro::llm {

bool StreamedSource::takes(const RequestedTensor& requested) const {
  return stream_.takes(requested.name) && has_stored_rows(stored_.names(), stored_.checkpoint(), requested);
}

// Streamed rows are read from the files.
void StreamedSource::require_streamable(const CheckpointTensor& tensor, const std::string& name) const {
  if (!tensor.derived && !weights_.is_quantized_while_loading(name, tensor.dtype())) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: tensor {}: weights that are quantized while loading, or are {}, cannot be streamed",
                          stored_.checkpoint().path(), quote(tensor.name), tensor.format),
              "gabbro convert makes a GGUF file of them, which can");
}

Tensor StreamedSource::matrix(const std::string& name, const MatrixSize& size, const TransformersLayout& theirs) {
  if (!takes({.name = name, .shape = {size.rows, size.columns}, .theirs = theirs}))
    return weights_.matrix(name, size, theirs);
  const CheckpointTensor& whole = stored_.matrix(name, size, theirs);
  require_streamable(whole, name);
  return stream_.add(stored_.rows_in_files(whole, name, size, theirs));
}

std::shared_ptr<nn::Linear> StreamedSource::projection(const std::string& name, const MatrixSize& size,
                                                       const TransformersLayout& theirs) {
  if (!takes({.name = name, .shape = {size.rows, size.columns}, .theirs = theirs}))
    return weights_.projection(name, size, theirs);
  return std::make_shared<nn::Linear>(matrix(name, size, theirs));
}

ExpertWeights StreamedSource::experts(const std::string& name, const ExpertsSize& size) {
  if (!takes({.name = name, .shape = {size.experts, size.rows, size.columns}, .experts = size}))
    return weights_.experts(name, size);
  const ExpertTensors experts(stored_.names(), stored_.checkpoint(), name, size);
  for (const CheckpointTensor* tensor : experts.tensors()) {
    stored_.require_weight_format(*tensor);
    require_streamable(*tensor, name);
  }
  const MatrixInFiles stored = {.name = name,
                                .dtype = experts.first().dtype(),
                                .rows = size.experts * size.rows,
                                .columns = size.columns,
                                .row = [experts](int64_t i) { return experts.row(i); },
                                .files = experts.files()};
  if (!stream_.takes_by_need(name)) return {.matrix = stream_.add(stored)};
  Tensor slots = stream_.add_experts(stored);
  const std::string prefix = name.substr(0, name.find("ffn_"));  // "blk.3."
  return {.matrix = std::move(slots), .slots = stream_.expert_slots(prefix)};
}

Tensor StreamedSource::heads(const std::string& name, const HeadMatrices& size, bool together) {
  if (together || !takes({.name = name, .shape = size.shape(), .heads = size}))
    return weights_.heads(name, size, together);
  const HeadTensors heads(stored_.names(), stored_.checkpoint(), name, size);
  stored_.require_weight_format(heads.tensor());
  require_streamable(heads.tensor(), name);
  return stream_.add({.name = name,
                      .dtype = heads.dtype(),
                      .rows = size.heads * size.rows,
                      .columns = size.columns,
                      .row = [heads](int64_t i) { return heads.row(i); },
                      .files = {heads.tensor().file}});
}

}  // namespace gabbro::llm
