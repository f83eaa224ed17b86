// Quantized weights as Hugging Face folders have them: GPTQ, AWQ, FP8, bitsandbytes, compressed-tensors, MXFP4, NVFP4.
// A form makes one matrix of a module's tensors, in one of our block formats where that is exact, else in f16 or bf16.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/formats/checkpoint.h"
#include "src/formats/metadata.h"
#include "src/formats/quantized_folders/derived_data.h"

namespace gabbro::published {

// A matrix [rows, columns], or the matrices of all experts [E, rows, columns].
struct Matrix {
  std::string name;         // "model.layers.0.self_attn.q_proj.weight"
  std::string_view format;  // "GPTQ 4-bit"
  DType dtype = DType::f32;
  std::vector<int64_t> shape{};
  std::vector<const CheckpointTensor*> parts{};  // that it is made of; the first is the largest
  FillData fill{};
  // The quantized form of a matrix that is dequantized since its columns are not in the order of their groups: the
  // block format and the bytes of the matrix whose column j is column order[j] of this one.
  struct Ordered {
    DType dtype;
    FillData fill;
    std::vector<int32_t> order;
  };
  std::optional<Ordered> ordered{};
  std::string_view dequantized_for{};  // why it is in f16 or bf16; "" where it is not
};

// The tensors of a folder by name, and its quantization_config.
class Source {
 public:
  Source(std::span<const CheckpointTensor> tensors, const Metadata& config,
         std::function<const CheckpointTensor*(std::string_view)> find)
      : tensors_(tensors), config_(config), find_(std::move(find)) {}

  std::span<const CheckpointTensor> tensors() const { return tensors_; }
  const Metadata& config() const { return config_; }
  const CheckpointTensor* find(const std::string& name) const { return find_(name); }
  // Throws bad_input that names the file and the tensor: missing, of another element type (as safetensors call it) or
  // shape; -1: any length but 0.
  const CheckpointTensor& require(const std::string& name, const CheckpointTensor& of) const;
  const CheckpointTensor& require(const std::string& name, const CheckpointTensor& of,
                                  const std::vector<std::string_view>& types, std::vector<int64_t> shape) const;

 private:
  std::span<const CheckpointTensor> tensors_;
  const Metadata& config_;
  std::function<const CheckpointTensor*(std::string_view)> find_;
};

// Throws bad_input as above.
void require_shape(const CheckpointTensor& tensor, const std::vector<std::string_view>& types,
                   const std::vector<int64_t>& shape);

// The matrices of a folder, and its F64 tensors; no matrices where its configuration has no quantization_config. Sizes,
// bits, groups and indices are checked here, so that `fill` reads nothing outside of the files. Throws bad_input that
// names file and field for a method, a number of bits or a packing that is not supported.
std::vector<Matrix> find_matrices(const Source& source);

// The forms, each over all tensors of the folder.
void add_gptq(const Source& source, std::vector<Matrix>& out);
void add_awq(const Source& source, std::vector<Matrix>& out);
void add_fp8(const Source& source, std::vector<Matrix>& out);
void add_bitsandbytes(const Source& source, std::vector<Matrix>& out);
void add_compressed_tensors(const Source& source, std::vector<Matrix>& out);
void add_modelopt(const Source& source, std::vector<Matrix>& out);
void add_mxfp4(const Source& source, std::vector<Matrix>& out);

// F64 tensors that are not part of a matrix of `out`, whatever their number of dimensions: they are read in f32.
void add_f64(std::span<const CheckpointTensor> tensors, std::vector<Matrix>& out);

// `name` without `suffix`; "" where it does not end so.
std::string without_suffix(std::string_view name, std::string_view suffix);

}  // namespace gabbro::published
