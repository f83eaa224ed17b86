// Contents of a file of a llama shape: its tensors by name, shape and format, its fields, and random weights.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/formats/ggml_type.h"
#include "src/formats/random_file.h"
#include "src/models/llm/llama_shape.h"

namespace gabbro::llm {
namespace {

// Trained matrices have about this; sums over some thousand elements then stay near 1.
constexpr float kDeviation = 0.02f;

// The divisors of Llama 3's rotary frequencies, as its reference code computes them: waves of more than the original
// context are stretched by the factor, those of less than a quarter of it not at all, and those between partly.
std::vector<float> rope_divisors(const LlamaShape& shape) {
  constexpr double kOriginalContext = 8192, kLow = 1, kHigh = 4;
  const int64_t dimensions = shape.sizes.head_dimension;
  std::vector<float> divisors;
  for (int64_t i = 0; i < dimensions; i += 2) {
    const double frequency = std::pow(shape.rope_base, -static_cast<double>(i) / static_cast<double>(dimensions));
    const double waves = kOriginalContext * frequency / (2 * std::numbers::pi);  // in the original context
    const double smooth = std::clamp((waves - kLow) / (kHigh - kLow), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - smooth) / shape.rope_factor + smooth)));
  }
  return divisors;
}

gguf::Writer fields_of(const LlamaShape& shape, const FileType& type) {
  const ModelShape& s = shape.sizes;
  const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
  gguf::Writer writer(gguf::kPageAlignment);
  writer.add_string("general.architecture", "llama");
  writer.add_string("general.name", shape.name);
  writer.add_u32("general.file_type", type.number);
  writer.add_u32("llama.block_count", u32(s.layers));
  writer.add_u32("llama.context_length", u32(s.context_trained));
  writer.add_u32("llama.embedding_length", u32(s.embedding));
  writer.add_u32("llama.feed_forward_length", u32(s.feed_forward));
  writer.add_u32("llama.attention.head_count", u32(s.heads));
  writer.add_u32("llama.attention.head_count_kv", u32(s.kv_heads));
  writer.add_u32("llama.attention.key_length", u32(s.head_dimension));
  writer.add_u32("llama.attention.value_length", u32(s.head_dimension));
  writer.add_f32("llama.attention.layer_norm_rms_epsilon", shape.norm_epsilon);
  writer.add_u32("llama.rope.dimension_count", u32(s.head_dimension));
  writer.add_f32("llama.rope.freq_base", shape.rope_base);
  writer.add_string("tokenizer.ggml.model", "none");
  return writer;
}

}  // namespace

int64_t PlannedTensor::elements() const {
  int64_t count = 1;
  for (const int64_t dimension : shape) count *= dimension;
  return count;
}

uint64_t PlannedTensor::bytes() const { return dtype_bytes(dtype, static_cast<size_t>(elements())); }

std::vector<PlannedTensor> planned_tensors(const LlamaShape& shape, const FileType& type) {
  const ModelShape& s = shape.sizes;
  const MixtureModel model{.layers = s.layers, .heads = s.heads, .kv_heads = s.kv_heads, .tied = shape.tied};
  std::vector<PlannedTensor> tensors;
  int64_t layer = 0;
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t columns, TensorRole role) {
    const DType dtype = mixture_dtype(type, {.role = role, .layer = layer, .columns = columns}, model);
    tensors.push_back({name + ".weight", {rows, columns}, dtype});
  };
  const auto vector = [&](const std::string& name, int64_t length) {
    tensors.push_back({name + ".weight", {length}, DType::f32});
  };
  matrix("token_embd", s.vocabulary, s.embedding, TensorRole::kTokenEmbedding);
  if (!shape.tied) matrix("output", s.vocabulary, s.embedding, TensorRole::kOutput);
  vector("output_norm", s.embedding);
  if (shape.rope_factor != 1) vector("rope_freqs", s.head_dimension / 2);
  const int64_t q_width = s.heads * s.head_dimension;
  const int64_t kv_width = s.kv_heads * s.head_dimension;
  for (; layer < s.layers; ++layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    vector(prefix + "attn_norm", s.embedding);
    matrix(prefix + "attn_q", q_width, s.embedding, TensorRole::kAttentionQ);
    matrix(prefix + "attn_k", kv_width, s.embedding, TensorRole::kAttentionK);
    matrix(prefix + "attn_v", kv_width, s.embedding, TensorRole::kAttentionV);
    matrix(prefix + "attn_output", s.embedding, q_width, TensorRole::kAttentionOutput);
    vector(prefix + "ffn_norm", s.embedding);
    matrix(prefix + "ffn_gate", s.feed_forward, s.embedding, TensorRole::kFfnGate);
    matrix(prefix + "ffn_up", s.feed_forward, s.embedding, TensorRole::kFfnUp);
    matrix(prefix + "ffn_down", s.embedding, s.feed_forward, TensorRole::kFfnDown);
  }
  return tensors;
}

gguf::File random_llama(const LlamaShape& shape, const FileType& type, uint64_t seed) {
  gguf::Writer writer = fields_of(shape, type);
  const std::vector<float> ones(static_cast<size_t>(shape.sizes.embedding), 1.0f);
  const std::vector<float> divisors = rope_divisors(shape);
  for (const PlannedTensor& tensor : planned_tensors(shape, type)) {
    const uint32_t number = gguf::ggml_type_number(tensor.dtype);
    if (tensor.shape.size() == 2) {
      writer.declare_tensor(tensor.name, number, tensor.shape);
    } else {
      const std::vector<float>& values = tensor.name == "rope_freqs.weight" ? divisors : ones;
      writer.add_tensor(tensor.name, number, tensor.shape, std::as_bytes(std::span(values)));
    }
  }
  return gguf::random_file(shape.name, writer, kDeviation, seed);
}

}  // namespace gabbro::llm
