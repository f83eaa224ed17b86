// The inside of Engine: what its sessions share. Private to src/engine.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gabbro/engine/session.h"
#include "src/engine/cache/cache_size.h"
#include "src/engine/cache/page_pool.h"
#include "src/engine/cache/page_store.h"
#include "src/engine/cache/state_pool.h"
#include "src/engine/decode_step.h"
#include "src/engine/model_templates.h"
#include "src/engine/sampling_defaults.h"
#include "src/engine/streaming/weight_stream.h"
#include "src/models/encoder/t5_decoder.h"
#include "src/models/llm/model.h"
#include "src/models/weights/adapter.h"
#include "src/plan/eval.h"
#include "src/text/tokenizer.h"

namespace gabbro {

struct Engine::State {
  std::shared_ptr<Device> device;
  FilesInUse files;                                 // whose weights are used in place, or streamed
  std::unique_ptr<streaming::WeightStream> stream;  // null: all weights are on the device
  std::vector<llm::ScaledAdapter> adapters;
  std::shared_ptr<llm::InputSquares> observer;  // mostly null
  std::unique_ptr<llm::LanguageModel> model;    // null: text_to_text instead
  std::optional<encoder::T5Model> text_to_text;
  std::optional<nn::KvCache> cache;
  std::vector<PagePool> pools;  // by group of the cache's layers
  // Beginnings that the present weights and adapters computed, by the rotation of their keys and their tree.
  std::map<std::pair<int64_t, std::string>, std::shared_ptr<Prefix>> prefixes;
  std::string identity;              // of the files that were loaded
  std::unique_ptr<PageStore> store;  // null: pages are not stored
  std::optional<StatePool> states;   // of models that have recurrent ones
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::string no_tokenizer;  // why there is none
  ModelTemplates chat_templates;
  ModelFacts facts;
  SamplingDefaults sampling;
  std::map<int64_t, DecodeStep> decode;  // by S
  QueuedStep queued;                     // of `decode`
  StreamingWork streaming_work;          // without `waited`
  int64_t pass_tokens = 0;               // of the last pass over streamed weights
  std::mutex mutex;                      // one step at a time

  const std::shared_ptr<Prefix>& prefixes_of(int64_t rotation, const std::string& tree);
  int64_t rotation_of(int64_t length) const;  // of a text, see llm::TextRotations
  int64_t pages_per_sequence() const;         // M
  int64_t prompt_chunk() const;               // tokens of prompts that the device computes well in one step
  DecodeStep& decode_step(int64_t sequences);
  Compiled& greedy_step(DecodeStep& step);
  Compiled& sampled_step(DecodeStep& step, bool has_edits);
  // Logits of the wanted rows of all parts of a step, in their order, with weights that are streamed; undefined where
  // none are wanted. Every layer runs all parts before the next one does, so that they share a pass.
  Tensor run_pass(std::span<const llm::Step> parts, const std::atomic<bool>* cancel);
  void trim_for(std::span<const llm::Step> parts);
};

}  // namespace gabbro
