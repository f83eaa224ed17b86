// The weights that a family asks for by name while it is built: from a checkpoint onto a device, or only listed.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/backend/memory_block.h"
#include "src/formats/checkpoint.h"
#include "src/models/llm/model.h"
#include "src/models/projection.h"

namespace gabbro::llm {

class InputSquares;    // input_squares.h
struct AdapterPair;    // adapter.h
struct ScaledAdapter;  // adapter.h
class CountedTensors;  // counted_tensors.h

// A module of tensors in both layouts; "{}" is the number of the layer. A family has a table of them, and asks by the
// name of GGUF. Of several rows for one name the first whose tensor exists counts. Where transformers has a tensor for
// each expert, "*" is the number of the expert.
struct WeightName {
  const char* gguf;          // "blk.{}.attn_q"
  const char* hugging_face;  // "model.layers.{}.self_attn.q_proj"
  bool whole = false;        // it has no ".weight" or ".bias" after that; GGUF's may have none either
};

// A table with rows of `own` before those of `common`.
template <size_t A, size_t B>
constexpr std::array<WeightName, A + B> with_names(const WeightName (&own)[A], const WeightName (&common)[B]) {
  std::array<WeightName, A + B> all{};
  for (size_t i = 0; i < A; ++i) all[i] = own[i];
  for (size_t i = 0; i < B; ++i) all[A + i] = common[i];
  return all;
}

template <size_t A, size_t B>
constexpr std::array<WeightName, A + B> with_names(const WeightName (&own)[A],
                                                   const std::array<WeightName, B>& common) {
  std::array<WeightName, A + B> all{};
  for (size_t i = 0; i < A; ++i) all[i] = own[i];
  for (size_t i = 0; i < B; ++i) all[A + i] = common[i];
  return all;
}

// How transformers stores a tensor where that differs from GGUF's layout, in which it is asked for.
struct TransformersLayout {
  std::function<int64_t(int64_t row)> row;  // the row there of each row here; empty: the same
  bool transposed = false;                  // stored [columns, rows]
  float offset = 0;                         // added to the values of a vector
  bool one_row = false;                     // a vector is stored as [1, n]
  bool stacked = false;                     // each row is a tensor there, whose number is "*" of the name
  int64_t skipped_rows = 0;                 // that a matrix begins with, and that GGUF's lacks
  int64_t trailing_rows = 0;                // the same of its end
  // For vectors and matrices that are read in f32: the shape there, if it is another one; the element there of each
  // element here (empty: the same); and what becomes of a value.
  std::vector<int64_t> shape{};
  std::function<int64_t(int64_t element)> element{};
  float (*value)(float) = nullptr;
  // For matrices of floats: the column there of each column here; and a factor on each row here, which GGUF has in it.
  std::function<int64_t(int64_t column)> column{};
  std::function<float(int64_t row)> factor{};

  bool is_same() const { return !row && !transposed && offset == 0 && !is_computed() && !column && !factor; }
  bool is_computed() const { return !shape.empty() || element || value != nullptr || stacked; }
};

// Copies row `row` of GGUF's layout out of a tensor of `rows` rows there (a vector has rows of one element).
void copy_row(const CheckpointTensor& tensor, int64_t rows, const TransformersLayout& theirs, int64_t row,
              std::byte* out);

// The `count` values of a vector or a small matrix, in GGUF's layout.
std::vector<float> float_values(const CheckpointTensor& tensor, int64_t count, const TransformersLayout& theirs);

// The vectors of `columns` elements that are the rows of a matrix here (TransformersLayout::stacked). Throws bad_input
// that names the file and the tensor: missing, or of another shape.
std::vector<const CheckpointTensor*> stacked_tensors(std::span<const WeightName> names, const Checkpoint& checkpoint,
                                                     const std::string& name, int64_t rows, int64_t columns);

// Heads that are rotated in pairs (2i, 2i + 1): GGUF files have them in that order, those of transformers have the
// elements i and i + `rotated` / 2 of a head as a pair.
TransformersLayout paired_rows(int64_t head_dimension, int64_t rotated);

// `layout` with one factor on all rows; without one where it is 1.
TransformersLayout with_factor(float factor, TransformersLayout layout = {});

// A matrix, or some rows of it.
struct MatrixSize {
  int64_t rows = 0, columns = 0;  // of the whole matrix
  int64_t first = 0, count = 0;   // the rows that are wanted; count 0: all
};

// The matrices of all experts of a layer, each [rows, columns]. Where transformers stores the rows of two of them
// together, [E, 2 · rows, columns], this is the first (0) or the second (1).
struct ExpertsSize {
  int64_t experts = 0, rows = 0, columns = 0;
  int64_t used = 0;  // experts that a token needs
  int part = 0;
  bool interleaved = false;  // of the rows that are stored together every other one
  bool transposed = false;   // transformers stores [E, columns, rows]
};

// The matrices of all heads of a layer, each [rows, columns], where one matrix has `stored` rows of each head: the rows
// from `first` on; transposed, the columns are these.
struct HeadMatrices {
  int64_t heads = 0, rows = 0, columns = 0;
  int64_t first = 0, stored = 0;
  bool transposed = false;

  std::vector<int64_t> shape() const { return {heads, rows, columns}; }
  std::vector<int64_t> stored_shape() const { return {heads * stored, transposed ? rows : columns}; }
};

// A tensor of a file of a given type.
struct PlannedTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major
  DType dtype;
  ExpertsSize experts{};  // of a tensor [E, rows, columns]
  DType asked = dtype;    // what the type of the file asks for: another where rows are no whole blocks of it

  int64_t elements() const;
  uint64_t bytes() const;
};

// The rows of a layer's experts in the checkpoint: one tensor for all, or one for each.
class ExpertTensors {
 public:
  // `name` is GGUF's. Throws bad_input that names the file and the tensor: missing, of another shape or format than the
  // others.
  ExpertTensors(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name,
                const ExpertsSize& size);

  std::span<const CheckpointTensor* const> tensors() const { return tensors_; }
  const CheckpointTensor& first() const { return *tensors_.front(); }
  // Row `row` of [E · rows, columns]. Only where rows are stored as such.
  const std::byte* row(int64_t row) const;
  bool has_rows() const { return !gathered_; }
  void copy_row(int64_t row, std::byte* out) const;
  // Its files, each once.
  std::vector<std::shared_ptr<const MappedFile>> files() const;
  // Whether these rows follow each other in the file.
  bool in_one_piece() const { return tensors_.size() == 1 && stored_rows_ == size_.rows && !gathered_; }

 private:
  ExpertsSize size_;
  int64_t stored_rows_;  // of an expert
  size_t row_bytes_;
  bool gathered_ = false;  // stored transposed
  std::vector<const CheckpointTensor*> tensors_;
};

// The matrices of a layer's heads in the checkpoint: as they are asked for, or in one matrix.
class HeadTensors {
 public:
  // Throws bad_input that names the file and the tensor: missing, or of another shape.
  HeadTensors(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name,
              const HeadMatrices& size);

  const CheckpointTensor& tensor() const { return *tensor_; }
  bool in_one_piece() const { return whole_; }
  bool has_rows() const { return whole_ || !size_.transposed; }  // else they are columns there
  // Row `row` of [heads · rows, columns] in the file. Only where rows are stored as such.
  const std::byte* row(int64_t row) const;
  // That of the file; f16 where blocks have to be taken apart, since rows become columns.
  DType dtype() const;
  // Row `row` of [heads · rows, columns], and all rows of a head, in dtype().
  void copy_row(int64_t row, std::byte* out) const;
  void copy_head(int64_t head, std::byte* out) const;

 private:
  const std::byte* stored_row(int64_t head, int64_t row) const;

  HeadMatrices size_;
  const CheckpointTensor* tensor_;
  bool whole_;
};

// A tensor that a family asked for.
struct RequestedTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major
  TransformersLayout theirs;
  ExpertsSize experts{};                  // of a tensor [E, rows, columns]
  HeadMatrices heads{};                   // likewise
  std::vector<HeadMatrices> taken_out{};  // of a tensor that has the matrices of all heads: those that are made of it
  bool in_f32 = false;                    // read in f32, and stored so in GGUF
};

// A requested matrix as the model has it.
struct ModelMatrix {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
};

// The matrices that the model makes of a requested one: one, mostly. Throws bad_input as WeightSource does.
std::vector<ModelMatrix> model_matrices(std::span<const WeightName> names, const Checkpoint& checkpoint,
                                        const RequestedTensor& requested);

// Whether the rows of a requested matrix are stored as such, and can be read from the file each time they are needed.
// Others are gathered while loading, and stay in memory. Throws as above.
bool has_stored_rows(std::span<const WeightName> names, const Checkpoint& checkpoint, const RequestedTensor& requested);

// All functions throw bad_input that names the file and the tensor: missing, of another shape, of a format that does
// not run, or with values that are not numbers.
class WeightSource {
 public:
  WeightSource() = default;
  WeightSource(const WeightSource&) = delete;
  virtual ~WeightSource() = default;

  virtual bool has(const std::string& name) const = 0;  // a tensor's: "output.weight"
  // As `linear` and `embedding` want it.
  virtual Tensor matrix(const std::string& name, MatrixSize size, const TransformersLayout& theirs = {}) = 0;
  // The same as a projection without bias, whose columns may be in another order.
  virtual nn::Projection projection(const std::string& name, MatrixSize size, const TransformersLayout& theirs) {
    return {.weight = matrix(name, size, theirs), .bias = {}, .order = {}};
  }
  // In f32, whatever the file has.
  virtual Tensor matrix_f32(const std::string& name, MatrixSize size, const TransformersLayout& theirs = {}) = 0;
  // The matrices of all experts as one of E · rows rows, as `expert_linear` wants it.
  virtual Tensor experts(const std::string& name, const ExpertsSize& size) = 0;
  // Slots that the layer with this prefix ("blk.3.") has in the matrices of experts(); null: all experts are there.
  virtual std::shared_ptr<ExpertSlots> expert_slots(const std::string&) { return nullptr; }
  // The weights of the layer with this prefix for the host, which computes its feed-forward block where a pass has at
  // most `tokens` tokens; null: it does not.
  struct OnHost {
    WeightSource* weights = nullptr;
    std::shared_ptr<Device> device;
    int64_t tokens = 0;
  };
  virtual OnHost on_host(const std::string&) { return {}; }
  // The same of heads; `together`: GGUF's tensor `name` is the matrix that has them all.
  virtual Tensor head_matrices(const std::string& name, const HeadMatrices& size, bool together) = 0;
  virtual std::vector<float> host_vector(const std::string& name, int64_t length,
                                         const TransformersLayout& theirs = {}) = 0;
  virtual Tensor upload(std::span<const float> values) = 0;  // f32 [n] on the device
  // Adds what adapters and an observer want of the rows of the matrix `name` to its projection.
  virtual void attach(const std::string& /*name*/, MatrixSize /*size*/, const TransformersLayout& /*theirs*/,
                      nn::Projection& /*projection*/) {}
  // Gets the inputs of experts; null: none does.
  virtual std::shared_ptr<InputSquares> observer() const { return nullptr; }

  Tensor vector(const std::string& name, int64_t length, const TransformersLayout& theirs = {}) {
    return upload(host_vector(name, length, theirs));
  }
  // PREFIX.weight, and PREFIX.bias if it is there.
  nn::Projection linear(const std::string& prefix, MatrixSize size, const TransformersLayout& theirs = {});
};

// Tensors of a checkpoint, which has to live as long as the loading takes, on a device.
class CheckpointWeights : public WeightSource {
 public:
  CheckpointWeights(const Checkpoint& checkpoint, std::span<const WeightName> names, std::shared_ptr<Device> device,
                    const LoadModelOptions& options);

  bool has(const std::string& name) const override;
  Tensor matrix(const std::string& name, MatrixSize size, const TransformersLayout& theirs) override;
  nn::Projection projection(const std::string& name, MatrixSize size, const TransformersLayout& theirs) override;
  Tensor matrix_f32(const std::string& name, MatrixSize size, const TransformersLayout& theirs) override;
  Tensor experts(const std::string& name, const ExpertsSize& size) override;
  std::shared_ptr<ExpertSlots> expert_slots(const std::string& prefix) override {
    return streamed_ != nullptr ? streamed_->expert_slots(prefix) : nullptr;
  }
  Tensor head_matrices(const std::string& name, const HeadMatrices& size, bool together) override;
  OnHost on_host(const std::string& prefix) override;
  std::vector<float> host_vector(const std::string& name, int64_t length, const TransformersLayout& theirs) override;
  Tensor upload(std::span<const float> values) override;
  void attach(const std::string& name, MatrixSize size, const TransformersLayout& theirs,
              nn::Projection& projection) override;
  std::shared_ptr<InputSquares> observer() const override { return observer_; }
  // Throws bad_input where an adapter has a matrix that no projection took.
  void require_adapters_used() const;

 private:
  nn::LowRank low_rank(const ScaledAdapter& adapter, const AdapterPair& pair, MatrixSize size,
                       const TransformersLayout& theirs);
  int64_t skipped_rows(const TransformersLayout& theirs) const;
  int64_t all_rows(int64_t rows, const TransformersLayout& theirs) const;
  const CheckpointTensor& checked_matrix(const std::string& name, MatrixSize size,
                                         const TransformersLayout& theirs) const;
  Tensor upload_rows(const CheckpointTensor& whole, const std::string& name, MatrixSize size,
                     const TransformersLayout& theirs);
  std::vector<float> read_floats(const std::string& name, std::vector<int64_t> shape, const TransformersLayout& theirs);
  void require_weight_format(const CheckpointTensor& tensor) const;
  const CheckpointTensor& checked(const std::string& name, std::vector<int64_t> shape) const;
  void check_values(const CheckpointTensor& tensor) const;
  bool is_streamed(const RequestedTensor& requested) const;
  void require_streamable(const CheckpointTensor& tensor, const std::string& name) const;
  Tensor streamed_rows(const CheckpointTensor& whole, const std::string& name, MatrixSize size,
                       const TransformersLayout& theirs);
  Tensor uploaded(DType dtype, int64_t rows, int64_t columns, const std::shared_ptr<const void>& bytes);
  void loaded(const CheckpointTensor& tensor, size_t bytes, bool used_in_place = false);
  // Rows of a matrix that are to be quantized while loading, in the new format, which goes to `dtype`; else `rows`.
  std::shared_ptr<const void> quantized(const std::string& name, int64_t count, int64_t columns,
                                        std::shared_ptr<const void> rows, DType& dtype) const;

  const Checkpoint& checkpoint_;
  std::span<const WeightName> names_;
  std::shared_ptr<const CountedTensors> counted_;
  std::shared_ptr<Device> device_;
  std::map<std::string, PlannedTensor>
      quantize_;        // planned formats, by the names of GGUF; empty: as the checkpoint has them
  MemoryBlock memory_;  // of the matrices
  std::map<std::vector<int32_t>, Tensor> orders_;  // of columns; matrices with the same input often share one
  bool check_weights_;
  LoadProgress progress_;
  StreamedWeights* streamed_;
  std::unique_ptr<StreamedWeights> stays_;  // of `host_`
  std::unique_ptr<CheckpointWeights> host_;
  std::span<const ScaledAdapter> adapters_;
  std::vector<const AdapterPair*> adapter_pairs_;  // that were used
  std::shared_ptr<InputSquares> observer_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
};

// Lists what a family asks for; its tensors are undefined, so that the model cannot run.
class WeightList : public WeightSource {
 public:
  // `has` says which tensors there are.
  explicit WeightList(std::function<bool(const std::string& name)> has) : has_(std::move(has)) {}

  std::span<const RequestedTensor> tensors() const { return tensors_; }

  bool has(const std::string& name) const override { return has_(name); }
  Tensor matrix(const std::string& name, MatrixSize size, const TransformersLayout& theirs) override;
  Tensor matrix_f32(const std::string& name, MatrixSize size, const TransformersLayout& theirs) override;
  Tensor experts(const std::string& name, const ExpertsSize& size) override;
  Tensor head_matrices(const std::string& name, const HeadMatrices& size, bool together) override;
  std::vector<float> host_vector(const std::string& name, int64_t length, const TransformersLayout& theirs) override;
  Tensor upload(std::span<const float> values) override;

 private:
  void add(RequestedTensor tensor);

  std::function<bool(const std::string& name)> has_;
  std::vector<RequestedTensor> tensors_;
};

// The names that a tensor of GGUF may have in transformers' layout, the usual one first; of experts "*" is the number.
std::vector<std::string> transformers_names(std::span<const WeightName> names, const std::string& name);

// The name in the checkpoint of a tensor that a family asks for: that of a tensor that is there, else the one that is
// missing. Throws std::logic_error where the table has none.
std::string weight_name(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name);
bool has_weight(std::span<const WeightName> names, const Checkpoint& checkpoint, const std::string& name);

}  // namespace gabbro::llm
