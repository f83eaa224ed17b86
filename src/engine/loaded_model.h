// A loaded model on a device, with the rest of its files. Private to src/engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gabbro/engine/engine.h"
#include "src/engine/model_templates.h"
#include "src/engine/sampling_defaults.h"
#include "src/engine/streaming/weight_stream.h"
#include "src/models/llm/model.h"
#include "src/models/weights/adapter.h"
#include "src/text/tokenizer.h"

namespace gabbro {

// A device with a range of the model's layers.
struct ModelStage {
  std::shared_ptr<Device> device;
  llm::LayerRange layers;
  std::shared_ptr<llm::LanguageModel> model;  // which has the weights of these layers
};

struct LoadedModel {
  std::shared_ptr<Device> device;                   // that gets the tokens of a step
  std::vector<ModelStage> stages;                   // in their order; empty: all layers are on `device`
  std::string identity;                             // of the files that were loaded
  FilesInUse files;                                 // whose weights are used in place, or streamed
  std::unique_ptr<streaming::WeightStream> stream;  // null: all weights are on the device
  std::vector<llm::ScaledAdapter> adapters;
  std::shared_ptr<llm::InputSquares> observer;  // mostly null
  std::shared_ptr<llm::LanguageModel> model;    // the first stage's, if there are stages
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::string no_tokenizer;  // why there is none
  ModelTemplates chat_templates;
  ModelFacts facts;
  SamplingDefaults sampling;

  // The device of the logits.
  const std::shared_ptr<Device>& output_device() const { return stages.empty() ? device : stages.back().device; }
  std::vector<std::shared_ptr<Device>> devices() const;        // each once
  std::vector<std::shared_ptr<Device>> layer_devices() const;  // by layer
  // Sets the rotation of the model, in all stages.
  void set_rotation(int64_t rotation) const;
  // The rotation of a text's keys, see llm::TextRotations.
  int64_t rotation_of(int64_t length) const;
};

}  // namespace gabbro
