// The weights that a family asks for by name while it is built: from a checkpoint onto a device, or only listed.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/backend/memory_block.h"
#include "src/formats/checkpoint.h"
#include "src/models/llm/model.h"
#include "src/nn/projection.h"

namespace gabbro::llm {

// A module of tensors in both layouts; "{}" is the number of the layer. A family has a table of them, and asks by the
// name of GGUF.
struct WeightName {
  const char* gguf;          // "blk.{}.attn_q"
  const char* hugging_face;  // "model.layers.{}.self_attn.q_proj"
};

// The rows of a projection whose heads are rotated in pairs (2i, 2i + 1). GGUF files have them in that order, those of
// transformers have the elements i and i + `rotated` / 2 of a head as a pair.
struct PairedRows {
  int64_t head_dimension = 0;  // 0: rows are as they are in either layout
  int64_t rotated = 0;         // elements of a head that are
};

// All functions throw bad_input that names the file and the tensor: missing, of another shape, of a format that does
// not run, or with values that are not numbers.
class WeightSource {
 public:
  WeightSource() = default;
  WeightSource(const WeightSource&) = delete;
  virtual ~WeightSource() = default;

  virtual bool has(const std::string& name) const = 0;  // a tensor's: "output.weight"
  // [rows, columns] as `linear` and `embedding` want it.
  virtual Tensor matrix(const std::string& name, int64_t rows, int64_t columns, PairedRows order = {}) = 0;
  virtual std::vector<float> host_vector(const std::string& name, int64_t length, PairedRows order = {}) = 0;
  virtual Tensor upload(std::span<const float> values) = 0;  // f32 [n] on the device

  Tensor vector(const std::string& name, int64_t length, PairedRows order = {}) {
    return upload(host_vector(name, length, order));
  }
  // PREFIX.weight, and PREFIX.bias if it is there.
  nn::Projection linear(const std::string& prefix, int64_t rows, int64_t columns, PairedRows order = {});
};

// Tensors of a checkpoint, which has to live as long as the loading takes, on a device.
class CheckpointWeights : public WeightSource {
 public:
  CheckpointWeights(const Checkpoint& checkpoint, std::span<const WeightName> names, std::shared_ptr<Device> device,
                    LoadProgress progress);

  bool has(const std::string& name) const override;
  Tensor matrix(const std::string& name, int64_t rows, int64_t columns, PairedRows order) override;
  std::vector<float> host_vector(const std::string& name, int64_t length, PairedRows order) override;
  Tensor upload(std::span<const float> values) override;

 private:
  std::string name_in_file(const std::string& name) const;
  const CheckpointTensor& checked(const std::string& name, std::vector<int64_t> shape) const;
  void loaded(const CheckpointTensor& tensor, bool used_in_place = false);

  const Checkpoint& checkpoint_;
  std::span<const WeightName> names_;
  std::shared_ptr<Device> device_;
  MemoryBlock memory_;  // of the matrices
  LoadProgress progress_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
};

// A tensor that a family asked for.
struct RequestedTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major
};

// Lists what a family asks for; its tensors are undefined, so that the model cannot run.
class WeightList : public WeightSource {
 public:
  // `has` says which tensors there are.
  explicit WeightList(std::function<bool(const std::string& name)> has) : has_(std::move(has)) {}

  std::span<const RequestedTensor> tensors() const { return tensors_; }

  bool has(const std::string& name) const override { return has_(name); }
  Tensor matrix(const std::string& name, int64_t rows, int64_t columns, PairedRows order) override;
  std::vector<float> host_vector(const std::string& name, int64_t length, PairedRows order) override;  // ones
  Tensor upload(std::span<const float> values) override;

 private:
  std::function<bool(const std::string& name)> has_;
  std::vector<RequestedTensor> tensors_;
};

// The name in a checkpoint's layout of a tensor that a family asks for. Throws std::logic_error where the table has
// none.
std::string weight_name(std::span<const WeightName> names, CheckpointLayout layout, const std::string& name);

}  // namespace gabbro::llm
