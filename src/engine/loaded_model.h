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
#include "src/models/weights/tensor_shard.h"
#include "src/text/tokenizer.h"

namespace gabbro {

class ModelPlacement;  // model_placement.h
namespace sharded {
class RankSums;  // sharded/rank_sums.h
}
namespace processes {
struct ProcessPart;  // processes/process_part.h
}

// A device with a range of the model's layers.
struct ModelStage {
  std::shared_ptr<Device> device;
  llm::LayerRange layers;
  std::shared_ptr<llm::LanguageModel> model;  // which has the weights of these layers
};

// A device with a part of each of the model's tensors.
struct ModelRank {
  std::shared_ptr<Device> device;
  std::unique_ptr<const llm::TensorShard> shard;
  std::shared_ptr<llm::LanguageModel> model;
};

struct LoadedModel {
  const ModelPlacement* placement = nullptr;  // how the rest is spread over devices
  std::shared_ptr<Device> device;             // that gets the tokens of a step
  std::vector<ModelStage> stages;             // in their order; empty: all layers are on `device`
  std::vector<ModelRank> ranks;               // likewise; empty: no tensor is cut
  std::shared_ptr<sharded::RankSums> sums;    // over the ranks
  // This process's part of the model; null: all of it.
  std::shared_ptr<const processes::ProcessPart> process;
  std::string identity;                             // of the files that were loaded
  FilesInUse files;                                 // whose weights are used in place, or streamed
  std::unique_ptr<streaming::WeightStream> stream;  // null: all weights are on the device
  std::vector<llm::ScaledAdapter> adapters;
  std::shared_ptr<llm::InputSquares> observer;  // mostly null
  std::shared_ptr<llm::LanguageModel> model;    // the first stage's, or rank's
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::string no_tokenizer;  // why there is none
  std::string split_note;    // why the devices are used so; empty: they are as the options say
  ModelTemplates chat_templates;
  ModelFacts facts;
  SamplingDefaults sampling;

  // The device of the logits, or of rank 0.
  const std::shared_ptr<Device>& output_device() const { return stages.empty() ? device : stages.back().device; }
  std::vector<std::shared_ptr<Device>> devices() const;  // each once
  // Likewise, the output_device() last.
  std::vector<std::shared_ptr<Device>> step_devices() const;
  // Sets the rotation of the model, in all stages.
  void set_rotation(int64_t rotation) const;
  // The rotation of a text's keys, see llm::TextRotations.
  int64_t rotation_of(int64_t length) const;
};

}  // namespace gabbro
