// The inside of Engine: what its sessions share. Private to src/engine.
#pragma once

#include <future>
#include <mutex>
#include <optional>
#include <vector>

#include "gabbro/engine/session.h"
#include "src/engine/sampling_defaults.h"
#include "src/graph/eval.h"
#include "src/models/llm/model.h"
#include "src/text/chat_template.h"
#include "src/text/tokenizer.h"

namespace gabbro {

// The step of one token, traced once: its inputs are overwritten in place and its plan replayed.
struct DecodeStep {
  Tensor ids;                     // i32 [1]
  Tensor positions;               // i32 [1]
  Tensor page_table;              // i32 [1, M]
  std::vector<int32_t> page_row;  // what it holds
  std::optional<Compiled> run;
};

struct Engine::State {
  std::shared_ptr<Device> device;
  std::unique_ptr<llm::LanguageModel> model;
  std::optional<nn::KvCache> cache;
  std::optional<nn::PagePool> pages;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::shared_future<std::unique_ptr<const text::ChatTemplate>> chat_template;  // deferred: holds errors too
  ModelFacts facts;
  SamplingDefaults sampling;
  DecodeStep decode;
  std::mutex mutex;  // one session at a time
};

}  // namespace gabbro
