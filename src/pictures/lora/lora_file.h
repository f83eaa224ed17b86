// Files of adapters for pictures: LoRA and its relatives, in any of the spellings of their layers.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::pictures {

// A tensor of a file, in f32.
struct LoraTensor {
  std::string key;  // its name in the file, for messages
  std::vector<int64_t> shape;
  std::vector<float> values;

  int64_t length(size_t axis) const { return axis < shape.size() ? shape[axis] : 1; }
  int64_t columns() const;  // elements of a row
};

// The tensors of one layer, by their part: "down", "up", "mid", "alpha", "hada_w1_a", "lokr_w1", "dora_scale",
// "diff", "diff_b", "set_weight", "w_norm", "b_norm" ...
using LoraParts = std::map<std::string, LoraTensor>;

struct LoraFile {
  std::string path;
  // Keys: the layer's path with '_' for '.', without the prefixes of any program: "down_blocks_0_resnets_0_conv1", or
  // with "text1_" or "text2_" before it for a layer of the first or second text encoder.
  std::map<std::string, LoraParts> layers;
};

// Throws bad_input that names the file and the tensor: a pickle, a tensor of no known kind (which it names), values
// that are not numbers.
LoraFile read_lora(const std::string& path);
// Reads a file's bytes likewise; `path` is only a name for messages.
LoraFile parse_lora(std::span<const std::byte> bytes, const std::string& path);

// The layer and the part that a name of a file stands for; an empty part: of no known kind.
struct LoraKey {
  std::string layer, part;
};
LoraKey parse_lora_key(std::string_view key);

}  // namespace gabbro::pictures
