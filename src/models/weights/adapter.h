// Published LoRA adapters (arXiv 2106.09685): folders of PEFT, and GGUF files of llama.cpp. Applied to a
// loaded model as products of low rank next to its matrices, or merged into them by a conversion.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/models/weights/transformers_layout.h"
#include "src/models/weights/weight_shapes.h"

namespace gabbro::llm {

// The product factor · b · a that an adapter adds to one matrix W [N, K].
struct AdapterPair {
  std::string tensor;  // its name in the adapter's file, for messages
  int64_t rank = 0, rows = 0, columns = 0;
  std::vector<float> a;  // [R, K]
  std::vector<float> b;  // [N, R], in the row order of the adapter's layout
  float factor = 1;      // alpha / R, or alpha / √R (rsLoRA, arXiv 2312.03732)
};

class Adapter {
 public:
  // A folder with adapter_config.json and adapter_model.safetensors, that safetensors file, or a GGUF file. Throws
  // bad_input that names the file and the field or tensor: another kind of adapter (DoRA, biases, whole modules,
  // initial values that change the model), a matrix without its other factor, shapes that do not belong together.
  static Adapter open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& architecture() const { return architecture_; }  // of GGUF; empty for PEFT's
  bool in_gguf() const { return gguf_; }                             // in the layout of GGUF's matrices
  size_t digest() const;                                             // of names and values

  // The pair of GGUF's matrix `name` ("blk.0.attn_q.weight"); null if there is none. Throws bad_input where its sizes
  // are not the model's.
  const AdapterPair* find(std::span<const WeightName> names, const std::string& name, const MatrixSize& size,
                          const TransformersLayout& theirs) const;
  // The row of the pair's `b` for row `row` of the matrix in GGUF's layout.
  int64_t stored_row(const TransformersLayout& theirs, int64_t row) const;

  // Throws bad_input for a pair that is none of those that find() gave, `used`.
  void require_used(std::span<const AdapterPair* const> used) const;

 private:
  void read_gguf(const std::string& path);
  void read_peft(const std::string& folder);

  std::string path_;
  std::string architecture_;
  bool gguf_ = false;                         // its names and rows
  std::map<std::string, AdapterPair> pairs_;  // by module: "blk.0.attn_q", "model.layers.0.self_attn.q_proj"
};

// An adapter with the factor that its products get; 0: it is not applied.
struct ScaledAdapter {
  std::shared_ptr<const Adapter> adapter;
  std::shared_ptr<float> scale;
};

// Throws bad_input where a GGUF adapter was made for another architecture than these names of the model's, the first of
// which is the usual one.
void check_adapter(const Adapter& adapter, std::span<const std::string_view> architectures);

// "PATH" or "PATH:SCALE", as --lora has it. A path that exists is taken as a whole.
std::pair<std::string, float> parse_adapter(const std::string& text);

}  // namespace gabbro::llm
