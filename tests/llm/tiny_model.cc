#include "tests/llm/tiny_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>

#include "src/base/half.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/quant/quant.h"

namespace gabbro::test {
namespace {

TinyTensor weight(const std::string& name, std::vector<int64_t> shape) {
  uint32_t seed = 2166136261u;
  for (const char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 16777619u;
  TinyTensor tensor{.shape = std::move(shape), .values = {}};
  const int64_t count = std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
  const bool norm = name.find("norm") != std::string::npos;
  const float factor = name == "token_embd.weight" || name == "output.weight" ? 4 : 1;
  for (uint32_t i = 1; i <= static_cast<uint32_t>(count); ++i) {
    uint32_t x = i * 2654435761u + seed;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    const float value = (static_cast<float>(x % 257) - 128) / 512;
    tensor.values.push_back(norm ? 1 + value : factor * value);
  }
  return tensor;
}

uint32_t ggml_type_of(DType dtype) { return dtype == DType::f32 ? 0 : dtype == DType::f16 ? 1 : 8; }

std::vector<std::byte> encode(const TinyTensor& tensor, DType dtype) {
  const auto count = static_cast<int64_t>(tensor.values.size());
  std::vector<std::byte> bytes(dtype_bytes(dtype, tensor.values.size()));
  quantize_row(dtype, tensor.values.data(), bytes.data(), count);
  return bytes;
}

}  // namespace

TinyModel tiny_llama(const TinyOptions& options) {
  using M = TinyModel;
  M model;
  model.fields = {{"block_count", M::kL},
                  {"embedding_length", M::kC},
                  {"feed_forward_length", M::kF},
                  {"context_length", M::kContext},
                  {"attention.head_count", M::kH},
                  {"attention.head_count_kv", M::kG},
                  {"attention.layer_norm_rms_epsilon", 1e-5f}};
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    model.tensors[name] = weight(name, std::move(shape));
  };
  add("token_embd.weight", {M::kV, M::kC});
  add("output_norm.weight", {M::kC});
  if (!options.tied) add("output.weight", {M::kV, M::kC});
  for (int64_t i = 0; i < M::kL; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    add(layer + "attn_norm.weight", {M::kC});
    add(layer + "ffn_norm.weight", {M::kC});
    const auto linear = [&](const std::string& name, int64_t rows, int64_t columns) {
      add(layer + name + ".weight", {rows, columns});
      if (options.bias) add(layer + name + ".bias", {rows});
    };
    linear("attn_q", M::kH * M::kD, M::kC);
    linear("attn_k", M::kG * M::kD, M::kC);
    linear("attn_v", M::kG * M::kD, M::kC);
    linear("attn_output", M::kC, M::kH * M::kD);
    linear("ffn_gate", M::kF, M::kC);
    linear("ffn_up", M::kF, M::kC);
    linear("ffn_down", M::kC, M::kF);
  }
  // <unk>, <s>, </s>, then "a0".."z9" and so on: every token is two or three letters long.
  model.tokens = {"<unk>", "<s>", "</s>"};
  for (int i = 0; std::ssize(model.tokens) < M::kV; ++i)
    model.tokens.push_back(std::string(1, static_cast<char>('a' + i % 26)) + std::to_string(i / 26));
  return model;
}

std::string TinyModel::write(const std::string& name) const {
  gguf::Writer writer;
  writer.add_string("general.architecture", architecture);
  auto all = general;
  for (const auto& [field, value] : fields) all[architecture + "." + field] = value;
  for (const auto& [key, value] : all) {
    if (const auto* integer = std::get_if<int64_t>(&value)) writer.add_integer(key, gguf::ValueType::u32, *integer);
    if (const auto* real = std::get_if<float>(&value)) writer.add_f32(key, *real);
    if (const auto* text = std::get_if<std::string>(&value)) writer.add_string(key, *text);
    if (const auto* flag = std::get_if<bool>(&value)) writer.add_bool(key, *flag);
    if (const auto* list = std::get_if<std::vector<int32_t>>(&value)) writer.add_i32s(key, *list);
  }
  if (!tokens.empty()) {
    const std::vector<std::string_view> views(tokens.begin(), tokens.end());
    std::vector<int32_t> types(tokens.size(), 1);
    types[0] = 2;
    types[1] = types[2] = 3;
    writer.add_string("tokenizer.ggml.model", "llama");
    writer.add_strings("tokenizer.ggml.tokens", views);
    writer.add_f32s("tokenizer.ggml.scores", std::vector<float>(tokens.size(), -1.0f));
    writer.add_i32s("tokenizer.ggml.token_type", types);
  }
  std::vector<std::vector<std::byte>> data;
  for (const auto& [tensor_name, tensor] : tensors) {
    const DType dtype = tensor.shape.size() == 2 ? weights : DType::f32;
    data.push_back(encode(tensor, dtype));
    writer.add_tensor(tensor_name, ggml_type_of(dtype), tensor.shape, data.back());
  }
  const std::string path = testing::TempDir() + name + "-" + std::to_string(::getpid()) + ".gguf";
  writer.write(path);
  return path;
}

}  // namespace gabbro::test
