#include "tests/llm/tiny_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "src/formats/hugging_face/safetensors.h"
#include "src/formats/quant/quant.h"

namespace gabbro::test {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::string> kModules = {
    {"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},   {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"},
    {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};

std::string name_in_transformers(const std::string& name) {
  const size_t dot = name.rfind('.');
  const std::string module = name.substr(0, dot), suffix = name.substr(dot);
  if (module == "token_embd") return "model.embed_tokens" + suffix;
  if (module == "output_norm") return "model.norm" + suffix;
  if (module == "output") return "lm_head" + suffix;
  const size_t after = module.find('.', 4);
  return "model.layers." + module.substr(4, after - 4) + "." + kModules.at(module.substr(after + 1)) + suffix;
}

// GGUF files have the pairs of a rotation next to each other, transformers half a head apart.
std::vector<float> halves_of_heads(const TinyTensor& tensor) {
  constexpr int64_t kD = TinyModel::kD;
  const int64_t rows = tensor.shape[0], columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  std::vector<float> out(tensor.values.size());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t i = row % kD, target = row - i + i / 2 + (i % 2) * (kD / 2);
    std::copy_n(tensor.values.begin() + row * columns, columns, out.begin() + target * columns);
  }
  return out;
}

}  // namespace

std::string write_folder(const TinyModel& model, const nlohmann::json& config, int files) {
  const fs::path folder = testing::TempDir() + "tiny-" + std::to_string(::getpid());
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump(1);
  std::deque<std::vector<std::byte>> bytes;
  std::vector<std::vector<safetensors::TensorData>> shards(static_cast<size_t>(files));
  nlohmann::json map;
  size_t next = 0;
  for (const auto& [name, tensor] : model.tensors) {
    const bool rotated = name.find("attn_q.") != name.npos || name.find("attn_k.") != name.npos;
    const std::vector<float> values = rotated ? halves_of_heads(tensor) : tensor.values;
    const DType dtype = tensor.shape.size() == 2 ? model.weights : DType::f32;
    auto& data = bytes.emplace_back(dtype_bytes(dtype, values.size()));
    quantize_row(dtype, values.data(), data.data(), std::ssize(values));
    const size_t shard = next++ % shards.size();
    const std::string file = files == 1 ? "model.safetensors" : "model-" + std::to_string(shard) + ".safetensors";
    map[name_in_transformers(name)] = file;
    shards[shard].push_back({name_in_transformers(name), dtype, tensor.shape, data});
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = files == 1 ? "model.safetensors" : "model-" + std::to_string(i) + ".safetensors";
    safetensors::write((folder / file).string(), shards[i]);
  }
  if (files > 1) std::ofstream(folder / "model.safetensors.index.json") << nlohmann::json{{"weight_map", map}}.dump();
  return folder.string();
}

}  // namespace gabbro::test
