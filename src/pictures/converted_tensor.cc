#include "src/pictures/converted_tensor.h"

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/damaged_tensor.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/formats/quant/finite.h"
#include "src/formats/quant/quant.h"

namespace gabbro::pictures {
namespace {

// [O, ...] as a matrix of O rows.
std::vector<int64_t> as_matrix(const std::vector<int64_t>& shape, int64_t elements) {
  return {shape.front(), elements / shape.front()};
}

}  // namespace

ConvertedTensor convert_tensor(const std::string& path, const CheckpointTensor& tensor, DType base) {
  ConvertedTensor result{.name = std::string(tensor.name), .shape = tensor.shape, .stored = tensor.shape};
  const int64_t elements = tensor.elements();
  const bool is_vector = tensor.shape.size() < 2;
  if (is_plain(base)) {
    result.dtype = base;
  } else if (!is_vector) {
    result.stored = as_matrix(tensor.shape, elements);
    result.dtype = result.stored[1] % dtype_info(base).block_elements == 0 ? base : DType::f16;
  }
  tensor.prepare();
  const DType stored = tensor.dtype();
  if (!is_floating(stored) && !is_quantized(stored)) {  // numbers of positions
    result.dtype = stored;
    result.stored = tensor.shape;
    result.bytes.assign(tensor.data.begin(), tensor.data.end());
    return result;
  }
  if (const auto found = find_non_finite(stored, tensor.data.data(), elements))
    throw damaged_tensor(path, tensor.name, *found, tensor.shape);
  std::vector<float> values(static_cast<size_t>(elements));
  dequantize_row(stored, tensor.data.data(), values.data(), elements);
  result.bytes.resize(dtype_bytes(result.dtype, values.size()));
  quantize_row(result.dtype, values.data(), result.bytes.data(), elements);
  if (const auto found = find_overflow(result.dtype, values, result.bytes.data())) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: tensor {}: {} is too large for {}", path, quote(tensor.name),
                            describe(*found, tensor.shape), dtype_name(result.dtype)),
                "--type bf16 has the range of f32");
  }
  tensor.release();
  return result;
}

void write_gguf(const std::string& path, const std::string& architecture, const std::deque<ConvertedTensor>& tensors,
                const FileType& type, const std::map<std::string, std::string>& fields) {
  gguf::Writer writer;
  writer.add_string("general.architecture", architecture);
  for (const auto& [key, text] : fields) writer.add_string(key, text);
  writer.add_u32("general.file_type", type.number);
  for (const ConvertedTensor& tensor : tensors) {
    if (tensor.stored == tensor.shape) continue;
    const std::vector<int32_t> shape(tensor.shape.begin(), tensor.shape.end());
    writer.add_i32s("comfy.gguf.orig_shape." + tensor.name, shape);
  }
  for (const ConvertedTensor& tensor : tensors)
    writer.add_tensor(tensor.name, gguf::ggml_type_number(tensor.dtype), tensor.stored, tensor.bytes);
  writer.write(path);
}

void write_safetensors(const std::string& path, const std::deque<ConvertedTensor>& tensors,
                       std::map<std::string, std::string> metadata) {
  metadata["format"] = "pt";
  std::vector<safetensors::TensorData> data;
  for (const ConvertedTensor& tensor : tensors)
    data.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .data = tensor.bytes});
  safetensors::write(path, data, metadata);
}

}  // namespace gabbro::pictures
