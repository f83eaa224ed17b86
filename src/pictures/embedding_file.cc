#include "src/pictures/embedding_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "src/base/error.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/formats/quant/quant.h"

namespace gabbro::pictures {
namespace {

constexpr int64_t kMostVectors = 75;  // of a chunk

Embedding read_embedding(const std::string& name, const std::string& path, int64_t width, std::string_view encoder) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".pt" || ending == ".bin" || ending == ".ckpt") {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: is a pickle, which can run code, and is not read", path),
                "a safetensors file of the same embedding is read");
  }
  const safetensors::File file(path);
  const safetensors::TensorInfo* found = nullptr;
  for (const safetensors::TensorInfo& tensor : file.tensors()) {
    const bool matrix = tensor.shape.size() == 2 || tensor.shape.size() == 1;
    if (matrix && (found == nullptr || tensor.name == "emb_params" || tensor.name == encoder)) found = &tensor;
  }
  if (found == nullptr) throw bad_input("{}: holds no vectors of an embedding", path);
  const int64_t rows = found->shape.size() == 2 ? found->shape[0] : 1, columns = found->shape.back();
  if (columns != width)
    throw bad_input("{}: {}: vectors of {} numbers, the text encoder's have {}", path, found->name, columns, width);
  if (rows < 1 || rows > kMostVectors)
    throw bad_input("{}: {}: {} vectors, expected 1 to {}", path, found->name, rows, kMostVectors);
  const DType dtype = found->dtype();
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    throw bad_input("{}: {}: is of dtype {}; embeddings have F32, F16 or BF16", path, found->name, found->dtype_name);
  std::vector<float> values(static_cast<size_t>(rows * columns));
  dequantize_row(dtype, found->data.data(), values.data(), rows * columns);
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    throw bad_input("{}: {}: has values that are not numbers", path, found->name);
  Embedding embedding{.name = name};
  for (int64_t row = 0; row < rows; ++row) {
    const auto first = values.begin() + row * columns;
    embedding.vectors.emplace_back(first, first + columns);
  }
  return embedding;
}

}  // namespace

Embeddings read_embeddings(const std::vector<std::string>& files, int64_t width, const char* encoder) {
  Embeddings embeddings;
  for (const std::string& file : files) {
    const size_t equals = file.find('=');
    const std::string path = equals == file.npos ? file : file.substr(equals + 1);
    const std::string name = equals == file.npos ? std::filesystem::path(path).stem().string() : file.substr(0, equals);
    if (name.empty()) throw bad_input("--embedding {}: names no word", file);
    const bool is_new =
        embeddings.emplace(name, std::make_shared<const Embedding>(read_embedding(name, path, width, encoder))).second;
    if (!is_new) throw bad_input("--embedding {}: there is one of the name '{}' already", file, name);
  }
  return embeddings;
}

}  // namespace gabbro::pictures
