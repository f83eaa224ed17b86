// Brings the tensors of a file onto a device, checked against the shapes that the model expects.
#pragma once

#include <string>
#include <vector>

#include "src/backend/memory_block.h"
#include "src/models/llm/model.h"
#include "src/nn/projection.h"

namespace gabbro::llm {

class WeightLoader {
 public:
  WeightLoader(const gguf::File& file, std::shared_ptr<Device> device, LoadProgress progress);

  const std::string& path() const { return file_.path(); }
  bool has(const std::string& name) const { return file_.tensor(name) != nullptr; }

  // Each throws bad_input that names the file and the tensor: missing, of another shape, of a format that we cannot
  // run, or with values that are not numbers.
  Tensor matrix(const std::string& name, int64_t rows, int64_t columns);    // as `linear` and `embedding` want it
  Tensor vector(const std::string& name, int64_t length);                   // f32 on the device
  std::vector<float> host_vector(const std::string& name, int64_t length);  // f32
  nn::Projection linear(const std::string& prefix, int64_t rows,
                        int64_t columns);  // PREFIX.weight, and PREFIX.bias if it is there

 private:
  const gguf::TensorInfo& checked(const std::string& name, std::vector<int64_t> shape) const;
  void loaded(const gguf::TensorInfo& info, bool used_in_place = false);

  const gguf::File& file_;
  std::shared_ptr<Device> device_;
  MemoryBlock memory_;  // of the matrices
  LoadProgress progress_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
};

}  // namespace gabbro::llm
