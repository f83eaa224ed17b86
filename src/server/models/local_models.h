// The models on this machine: of Gabbro's folder, of the Hub's cache, of Ollama and of LM Studio.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "src/server/models/model_source.h"

namespace gabbro::server {

struct LocalModelOptions {
  LoadOptions load{};                         // context, device, threads, sequences ...
  std::vector<std::string> worker_command{};  // that runs worker::run_child(); empty: engines run in this process
  int worker_restarts = 3;
  bool deterministic = false;  // these three as EngineSpec
  std::string cache_folder{};
  uint64_t cache_bytes = 0;
  std::function<void(const std::string&)> on_notice{};
};

class LocalModels final : public ModelSource {
 public:
  // `named`: models that the command line names, by path or name; their ids are their names without folders. Only these
  // may be paths: a name of a request never reaches the file system but through the list of models.
  LocalModels(LocalModelOptions options, const std::vector<std::string>& named);

  std::vector<ModelEntry> list() override;
  std::optional<ModelEntry> find(const std::string& name) override;
  LoadedModel load(const ModelEntry& entry) override;

  const std::vector<ModelEntry>& named() const { return named_; }

 private:
  struct Facts {
    int64_t modified;
    bool is_encoder;
    std::string architecture, quantization;
  };
  ModelEntry with_facts(ModelEntry entry);
  LoadedModel load_generator(const std::string& path, LoadOptions options);

  const LocalModelOptions options_;
  std::vector<ModelEntry> named_;
  std::map<std::string, std::string> arguments_;  // of the command line, by id
  std::mutex mutex_;
  std::map<std::string, Facts> facts_;  // by path
};

}  // namespace gabbro::server
