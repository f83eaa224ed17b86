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

struct LoadedModel {
  std::shared_ptr<Device> device;
  std::string identity;                             // of the files that were loaded
  FilesInUse files;                                 // whose weights are used in place, or streamed
  std::unique_ptr<streaming::WeightStream> stream;  // null: all weights are on the device
  std::vector<llm::ScaledAdapter> adapters;
  std::shared_ptr<llm::InputSquares> observer;  // mostly null
  std::unique_ptr<llm::LanguageModel> model;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::string no_tokenizer;  // why there is none
  ModelTemplates chat_templates;
  ModelFacts facts;
  SamplingDefaults sampling;

  // The rotation of a text's keys, see llm::TextRotations.
  int64_t rotation_of(int64_t length) const;
};

}  // namespace gabbro
