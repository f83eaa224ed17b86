// Loading a model for a command: a progress bar meanwhile, and one line that says what runs where.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "apps/cli/options.h"
#include "gabbro/engine/session.h"
#include "src/engine/model_service.h"
#include "src/hub/model_cache.h"
#include "src/models/llm/model_plan.h"

namespace gabbro::cli {

// Needs of a command that the common options do not tell.
struct EngineNeeds {
  int64_t context = 0;  // tokens; 0: the model's
  std::optional<std::string> kv_type{};
  bool exact = false;  // without a kv_type keys and values are f32 where the weights are
  int64_t sequences = 1;
  std::shared_ptr<Device> device = nullptr;  // null: opened by CommonOptions::device
  std::shared_ptr<llm::InputSquares> observer = nullptr;
};

// With the adapters and the chat template of the model's source; notes name the layers that are not followed.
std::shared_ptr<Engine> load_engine(const std::string& model, const CommonOptions& common,
                                    const EngineNeeds& needs = {});
std::shared_ptr<Engine> load_engine(const ResolvedModel& model, const CommonOptions& common,
                                    const EngineNeeds& needs = {});

// A model of random weights, without a file.
std::shared_ptr<Engine> load_random_engine(const llm::Blueprint& shape, const FileType& type,
                                           const CommonOptions& common, const EngineNeeds& needs);

// A model that answers requests: in a worker process where worker::is_worker_wanted() says so, else in this one.
// `deterministic`: the tokens of a request do not depend on others. `draft`: a model whose tokens it checks; empty:
// none.
struct ServiceNeeds {
  EngineNeeds engine;
  bool deterministic = false;
  bool restarts = true;  // a worker that is lost is started again: there will be other requests
  std::string draft{};
  int draft_tokens = 0;
  bool lookup = false, no_lookup = false;
};
std::shared_ptr<ModelService> load_service(const ResolvedModel& model, const CommonOptions& common,
                                           const ServiceNeeds& needs);

// "cpu  AMD EPYC 9654 (2 threads)  92 MiB weights + 45 MiB cache of 31 GiB"
std::string describe(const ModelService& model);

// Lines about streamed weights: what a pass will take, and what passes took. Empty where none are streamed.
std::string describe_streaming(const ModelFacts& facts);
std::string describe_streaming(const ModelFacts& facts, const StreamingWork& work);
// The share of the link's bandwidth that the passes reached.
double streamed_share(const ModelFacts& facts, const StreamingWork& work);
// Both as a field of a JSON document.
nlohmann::ordered_json streaming_document(const ModelFacts& facts, const StreamingWork& work);

}  // namespace gabbro::cli
