// The adapters of a pipeline: read once, and added to the layers of its U-Net and text encoder by the strengths of each
// request. Weights are never changed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/models/diffusion/adaptable.h"
#include "src/models/diffusion/unet.h"
#include "src/pictures/lora/lora_delta.h"
#include "src/pictures/picture_request.h"
#include "src/pictures/text_states.h"

namespace gabbro::pictures {

// The values of a tensor of a model by its name there, in f32; some forms depend on the weight that they change.
using WeightReader = std::function<std::vector<float>(const std::string& name)>;

struct AdaptedText {
  const TextStates* states = nullptr;
  WeightReader weight;
};

struct AdaptedModel {
  std::shared_ptr<Device> device;
  std::shared_ptr<diffusion::UNet> unet;
  int64_t resnets = 2;               // of a level of the U-Net, downward
  std::vector<AdaptedText> texts{};  // SDXL has two
  WeightReader unet_weight;
};

class Adapters {
 public:
  explicit Adapters(AdaptedModel model);

  // Reads the files that are not read yet and lets go of the others. Adapters of strength 0, also as a sum, add
  // nothing and compute nothing. Throws bad_input that names the file and the tensor: one that belongs to no layer, or
  // does not fit.
  void use(std::span<const LoraStrength> loras);
  // The strengths as a tensor for the U-Net's plans, with which `active` adapters are computed; undefined: none is.
  const Tensor& strengths() const { return strengths_->values; }
  // The properties besides its inputs' shapes that a plan of the U-Net depends on.
  std::vector<int64_t> plan_key() const;

 private:
  // A layer of the text encoder has weight + b · a.
  struct TextTerm {
    size_t adapter = 0;
    nn::Linear* layer = nullptr;
    Tensor a, b;
  };
  struct Layer {
    nn::Module* module = nullptr;
    std::string path;  // of diffusers
  };

  void find_layers(nn::Module& module, const std::string& path);
  void load(const std::vector<std::string>& paths);
  void add_to_unet(size_t adapter, const std::string& file, const LoraParts& parts, const Layer& layer);
  void add_to_text(size_t adapter, const std::string& file, const LoraParts& parts, const AdaptedText& text,
                   const std::string& path);
  // The text encoder of a layer's name "text<i>_<path>", and the path; null: the name is another.
  std::pair<const AdaptedText*, std::string> text_of(const std::string& layer) const;
  static Tensor upload(Device& device, const std::vector<float>& values, const std::vector<int64_t>& shape);
  void set_text_terms(std::span<const double> strengths);

  AdaptedModel model_;
  std::map<std::string, Layer> layers_;  // by the names in files, with '_' for '.'
  std::vector<std::string> paths_;       // of the adapters that are loaded
  std::shared_ptr<diffusion::AdapterStrengths> strengths_ = std::make_shared<diffusion::AdapterStrengths>();
  std::vector<TextTerm> text_terms_;
  int64_t loads_ = 0;
};

}  // namespace gabbro::pictures
