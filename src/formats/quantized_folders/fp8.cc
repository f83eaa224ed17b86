// FP8 weights, E4M3, as DeepSeek, vLLM's AutoFP8 and FBGEMM save them (transformers/integrations/finegrained_fp8.py,
// fbgemm_fp8.py): of a module `weight` F8_E4M3 [N, K], and `weight_scale_inv` or `weight_scale`, by which a weight is
// multiplied in spite of its name: one, one a row, or one a block of weight_block_size (128, 128). The experts of a
// layer may be together: X F8_E4M3 [E, N, K], and X_scale_inv or X_scale with as many of these for each expert.
#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quantized_folders/numbers.h"
#include "src/formats/quantized_folders/scaled_bytes.h"

namespace gabbro::published {
namespace {

// Experts are one matrix of all their rows where no tile reaches from one into the next.
Matrix expert_matrix(const Source& source, const CheckpointTensor& tensor, const std::vector<uint32_t>& block) {
  const std::string name(tensor.name);
  require_shape(tensor, {"F8_E4M3", "F8_E4M3FNUZ"}, {-1, -1, -1});
  const CheckpointTensor* inverse = source.find(name + "_scale_inv");
  const CheckpointTensor& scales = inverse != nullptr ? *inverse : source.require(name + "_scale", tensor);
  require_shape(scales, number_types(), std::vector<int64_t>(scales.shape.size(), -1));
  if (scales.shape.empty() || scales.shape[0] != tensor.shape[0]) {
    throw bad_input("{}: tensor {} has no scales for each of {} experts", scales.file->path(), quote(scales.name),
                    tensor.shape[0]);
  }
  CheckpointTensor values = tensor, of_values = scales;
  values.shape = {tensor.shape[1], tensor.shape[2]};
  of_values.shape.erase(of_values.shape.begin());
  ScaledBytes bytes{.values = &values, .scales = &of_values, .tile_rows = 1, .tile_columns = 1};
  find_tiles(block[0], block[1], bytes);
  if (tensor.shape[1] % bytes.tile_rows != 0) {
    throw bad_input("{}: tensor {}: {} rows of an expert are not a multiple of the tile size {}", tensor.file->path(),
                    quote(name), tensor.shape[1], bytes.tile_rows);
  }
  values.shape[0] *= tensor.shape[0];
  of_values.shape = scales.shape;  // all of them
  Matrix out = scaled_matrix(name, "FP8 E4M3", bytes);
  out.shape = tensor.shape;
  out.parts = {&tensor, &scales};
  return out;
}

}  // namespace

void add_fp8(const Source& source, std::vector<Matrix>& out) {
  constexpr std::string_view kBlock = "quantization_config.weight_block_size";
  std::vector<uint32_t> block = {128, 128};
  if (source.config().has(kBlock)) block = source.config().u32s(kBlock);
  if (block.size() != 2 || block[0] < 1 || block[1] < 1)
    throw bad_input("{}: config.json: {} has to be two lengths", source.config().path(), kBlock);
  for (const CheckpointTensor& tensor : source.tensors()) {
    if (tensor.format != "F8_E4M3" && tensor.format != "F8_E4M3FNUZ") continue;
    const std::string module = without_suffix(tensor.name, ".weight");
    if (module.empty() && tensor.shape.size() == 3) out.push_back(expert_matrix(source, tensor, block));
    if (module.empty()) continue;
    require_shape(tensor, {"F8_E4M3", "F8_E4M3FNUZ"}, {-1, -1});
    const CheckpointTensor* inverse = source.find(module + ".weight_scale_inv");
    const CheckpointTensor& scales = inverse != nullptr ? *inverse : source.require(module + ".weight_scale", tensor);
    require_shape(scales, number_types(), std::vector<int64_t>(scales.shape.size(), -1));
    ScaledBytes bytes{.values = &tensor, .scales = &scales, .tile_rows = 1, .tile_columns = 1};
    find_tiles(block[0], block[1], bytes);
    out.push_back(scaled_matrix(module + ".weight", "FP8 E4M3", bytes));
    if (const CheckpointTensor* input = source.find(module + ".input_scale")) out.back().parts.push_back(input);
  }
}

}  // namespace gabbro::published
