// The engine's view of a language model: its sizes, and a forward pass that builds a graph.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/formats/checkpoint.h"
#include "src/formats/file_type.h"
#include "src/models/llm/model_shape.h"
#include "src/models/llm/step.h"
#include "src/models/weights/layer_range.h"
#include "src/models/weights/stored_weights.h"
#include "src/models/weights/streamed_weights.h"

namespace gabbro::llm {

class HostBlockWeights;  // host_block_weights.h
class InputSquares;      // input_squares.h
class TextRotations;     // text_rotations.h
struct ScaledAdapter;    // adapter.h
struct TensorShard;      // tensor_shard.h

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual const ModelShape& shape() const = 0;
  // Contents of the cache, layer by layer.
  virtual std::vector<nn::CacheLayer> cache_spec() const = 0;
  // Logits [R, V] of the wanted tokens. Writes the keys and values of all tokens into the cache.
  virtual Tensor forward(const Step& step, const nn::KvCache& cache) const = 0;

  // Takes the feed-forward blocks that the host computes, after all other weights. A model without such blocks takes
  // none.
  virtual void add_host_blocks(HostBlockWeights& /*host*/) {}

  // Null: texts of all lengths have one rotation. Else set_rotation() chooses that of the following forward passes, by
  // its number; 0 at first.
  virtual const TextRotations* rotations() const { return nullptr; }
  virtual void set_rotation(int64_t /*rotation*/) {}

  // forward() in stages, for weights that come and go (docs/design/streaming.md): embed(), layer() of each
  // layer with the tensors named "blk.<index>.*", and head(). `x` is [T, C], after the last layer [R, C].
  virtual bool has_stages() const { return false; }
  virtual bool takes_copies() const { return false; }  // Step::copies
  // Whether its tensors may be cut for several devices. Each of them then gives the logits of a part of the vocabulary.
  virtual bool has_shards() const { return false; }
  virtual Tensor embed(const Step& step) const;
  virtual Tensor layer(int64_t index, const Tensor& x, const Step& step, const nn::KvCache& cache) const;
  virtual Tensor head(const Tensor& x) const;  // logits [R, V]
};

// The sizes of a checkpoint's model, by its architecture, without loading it. Throws bad_input for an architecture that
// is not in registry.cc, or for a checkpoint that lacks what it needs; the message names the file and the field.
ModelShape read_shape(const Checkpoint& checkpoint);

struct LoadModelOptions {
  int64_t context = 0;                 // tokens of a sequence, at most
  bool check_weights = true;           // refuse values that are not numbers, in all weights that loading reads anyway
  const FileType* quantize = nullptr;  // f32, f16 and bf16 matrices become this mixture; null: they stay unchanged
  LoadProgress progress{};
  const LayerRange* layers = nullptr;  // whose weights are loaded, without which the others cannot run; null: all
  // The part of each tensor that this device gets, kept as long as the model; null: whole tensors.
  const TensorShard* shard = nullptr;
  StreamedWeights* streamed = nullptr;  // then all other weights are on the device, and nothing is used in place
  std::span<const ScaledAdapter> adapters{};
  std::shared_ptr<InputSquares> observer{};  // gets the inputs of all matrices of layers
};

// The needs of one device's part, without loading it: matrices in the formats of the checkpoint, and its cache by
// layer.
struct ShardNeeds {
  uint64_t weight_bytes = 0;
  std::vector<nn::CacheLayer> cache;
};
// Throws bad_input as load_model() does for tensors that have no cut.
ShardNeeds needs_of_shard(const Checkpoint& checkpoint, const TensorShard& shard, int64_t context);

// Builds the model. Weights that the device uses in place, in the mapped file, are not read, and not checked. Throws as
// above; the message may also name a tensor.
std::unique_ptr<LanguageModel> load_model(const Checkpoint& checkpoint, const std::shared_ptr<Device>& device,
                                          const LoadModelOptions& options);

}  // namespace gabbro::llm
