// Names of tensors in the original layout of Stable Diffusion and in diffusers', by the paths of their modules.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::pictures {

// The blocks of a U-Net, on which its names in the original layout depend.
struct UNetLayout {
  struct Level {
    bool attends_down = false, attends_up = false;
  };
  std::vector<Level> levels;  // from the finest
  int64_t resnets = 2;        // of a level on the way down
};

class NameTable {
 public:
  static NameTable of_unet(const UNetLayout& layout);
  // `levels`: of resolution.
  static NameTable of_autoencoder(int64_t levels);
  // OpenCLIP's names except the fused matrices "attn.in_proj_weight" and "attn.in_proj_bias".
  static NameTable of_open_clip(int64_t layers);

  // The name in the other layout; nothing for a tensor of neither.
  std::optional<std::string> to_diffusers(std::string_view name) const { return translated(diffusers_, name); }
  std::optional<std::string> to_original(std::string_view name) const { return translated(original_, name); }

 private:
  using Paths = std::map<std::string, std::string, std::less<>>;
  void add(const std::string& original, const std::string& diffusers);
  void add_resnet(const std::string& original, const std::string& diffusers);
  // The longest path of whole words that `name` begins with is replaced.
  static std::optional<std::string> translated(const Paths& paths, std::string_view name);

  Paths diffusers_, original_;  // by the path in the other layout
};

}  // namespace gabbro::pictures
