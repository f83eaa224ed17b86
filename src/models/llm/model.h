// The engine's view of a language model: its sizes, and a forward pass that builds a graph.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/formats/checkpoint.h"
#include "src/formats/file_type.h"
#include "src/models/kv_cache.h"

namespace gabbro::llm {

class InputSquares;    // input_squares.h
class TextRotations;   // text_rotations.h
struct ScaledAdapter;  // adapter.h

struct ModelShape {
  int64_t layers = 0;
  int64_t embedding = 0;        // C
  int64_t heads = 0;            // H
  int64_t kv_heads = 0;         // G
  int64_t head_dimension = 0;   // D
  int64_t feed_forward = 0;     // F
  int64_t vocabulary = 0;       // V
  int64_t context_trained = 0;  // tokens
  // Mixtures of experts; all 0 in dense models.
  int64_t experts = 0;              // E
  int64_t experts_used = 0;         // U, of a token
  int64_t expert_feed_forward = 0;  // of each
};

// The tokens of a step whose keys and values several sequences get: row `rows[w]` of the step is written to place w.
struct TokenCopies {
  Tensor rows;  // i32 [W]; undefined: each token is written to its own place alone
  TokenPositions places;
};

// The result of an operation inside of a layer.
struct OperationResult {
  std::string_view name;  // "attn_norm", "attn_q", "rope_q" ...
  Tensor value;           // [T, ...]
};

// The tokens of one step.
struct Step {
  Tensor ids;                       // i32 [T]
  TokenPositions places;            // with the page table of the cache's first group
  std::vector<Tensor> page_tables;  // by group of the cache; empty: it has one
  Tensor output_rows;               // i32 [R]: the tokens whose logits are wanted; undefined: all of them
  // Branches of a tree, each of which is a sequence: a token attends to one that has all that is before it.
  TokenCopies copies{};
  // Gets the results of the layer's operations, in order; null: they are not wanted, and kernels may fuse them.
  std::vector<OperationResult>* operations = nullptr;

  // The places in the cache of a group of layers.
  TokenPositions places_in(size_t group) const { return in_group(places, group); }
  TokenPositions copies_in(size_t group) const { return in_group(copies.places, group); }
  TokenPositions in_group(TokenPositions all, size_t group) const {
    if (!page_tables.empty()) all.page_table = page_tables[group];
    return all;
  }

  const Tensor& noted(std::string_view name, const Tensor& value) const {
    if (operations != nullptr) operations->push_back({name, value});
    return value;
  }
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual const ModelShape& shape() const = 0;
  // Contents of the cache, layer by layer.
  virtual std::vector<nn::CacheLayer> cache_spec() const = 0;
  // Logits [R, V] of the wanted tokens. Writes the keys and values of all tokens into the cache.
  virtual Tensor forward(const Step& step, const nn::KvCache& cache) const = 0;

  // Null: texts of all lengths have one rotation. Else set_rotation() chooses that of the following forward passes, by
  // its number; 0 at first.
  virtual const TextRotations* rotations() const { return nullptr; }
  virtual void set_rotation(int64_t /*rotation*/) {}

  // The same in stages, for weights that come and go (docs/design/streaming.md): forward() is embed(), layer() of each
  // layer with the tensors named "blk.<index>.*", and head(). `x` is [T, C], after the last layer [R, C].
  virtual bool has_stages() const { return false; }
  virtual bool takes_copies() const { return false; }  // Step::copies
  virtual Tensor embed(const Step& step) const;
  virtual Tensor layer(int64_t index, const Tensor& x, const Step& step, const nn::KvCache& cache) const;
  virtual Tensor head(const Tensor& x) const;  // logits [R, V]
};

// How far loading is: bytes of weights that are on the device, and of all.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

// The sizes of a checkpoint's model, by its architecture, without loading it. Throws bad_input for an architecture that
// is not in registry.cc, or for a checkpoint that lacks what it needs; the message names the file and the field.
ModelShape read_shape(const Checkpoint& checkpoint);

// A matrix as its rows are stored in the files.
struct MatrixInFiles {
  std::string name;  // GGUF's
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  std::function<const std::byte*(int64_t row)> row;      // mapped, and not read; rows may be in any order
  std::vector<std::shared_ptr<const MappedFile>> files;  // that hold them
};

// The matrices of a layer's experts of which some are on the device, in slots: the rows of slot s are [s · N, (s + 1) ·
// N) of a matrix whose experts have N rows.
class ExpertSlots {
 public:
  virtual ~ExpertSlots() = default;
  virtual int64_t count() const = 0;
  // Reads what is missing of these experts, each named once; returns the slot of each of them, or -1 where there are
  // not as many slots: a later call brings it. All that uses the slots of an earlier call, of any layer, has been
  // enqueued. Throws what goes wrong with reading.
  virtual std::vector<int32_t> bring(std::span<const int32_t> experts) = 0;
  // These will probably be asked for next: reads of some of them begin. Others' slots of the last call stay.
  virtual void expect(std::span<const int32_t> experts) = 0;
  virtual const std::atomic<bool>* cancel() const = 0;  // ends computing between two calls; null: nothing does
};

// Layers whose feed-forward blocks the host computes in place where a pass has few tokens: it reads their weights
// sooner than the bus moves them. The device computes them in other passes.
struct HostBlocks {
  std::shared_ptr<Device> device;     // that works in host memory
  std::vector<std::string> prefixes;  // "blk.3.", sorted
  int64_t tokens = 0;                 // of a pass, at most
  size_t bytes = 0;                   // of their matrices on `device`
};

// Takes matrices that do not stay on the device (src/engine/streaming).
class StreamedWeights {
 public:
  virtual ~StreamedWeights() = default;
  virtual bool takes(const std::string& name) const = 0;
  virtual Tensor add(const MatrixInFiles& matrix) = 0;  // without memory until its layer's turn
  // Whether the experts of this matrix are read when they are needed; then add_experts() gives the matrix of all slots.
  virtual bool takes_by_need(const std::string& name) const = 0;
  virtual Tensor add_experts(const MatrixInFiles& matrix) = 0;
  // Slots of the layer with this prefix ("blk.3."); null: none of its experts are read by need.
  virtual std::shared_ptr<ExpertSlots> expert_slots(const std::string& prefix) = 0;
  virtual size_t resident_bytes() const = 0;  // on the device, of the matrices that it does not take
  // Asked for by a model that can have the feed-forward block of the layer with this prefix on the host; null: not of
  // this one.
  virtual const HostBlocks* take_host_block(const std::string& /*prefix*/) { return nullptr; }
};

struct LoadModelOptions {
  int64_t context = 0;                 // tokens of a sequence, at most
  bool check_weights = true;           // refuse values that are not numbers, in all weights that loading reads anyway
  const FileType* quantize = nullptr;  // f32, f16 and bf16 matrices become this mixture; null: they stay as they are
  LoadProgress progress{};
  StreamedWeights* streamed = nullptr;  // then all other weights are on the device, and nothing is used in place
  std::span<const ScaledAdapter> adapters{};
  std::shared_ptr<InputSquares> observer{};  // gets the inputs of all matrices of layers
};

// Builds the model. Weights that the device uses in place, in the mapped file, are not read, and not checked. Throws as
// above; the message may also name a tensor.
std::unique_ptr<LanguageModel> load_model(const Checkpoint& checkpoint, const std::shared_ptr<Device>& device,
                                          const LoadModelOptions& options);

}  // namespace gabbro::llm
