// The state that the routes share: models, answers in progress, counters.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "src/server/answer/answer.h"
#include "src/server/json/request_json.h"
#include "src/server/metrics.h"
#include "src/server/models/model_registry.h"

namespace gabbro::server {

struct ServiceOptions {
  std::string version;                                                      // of the program
  bool strict_requests = false;                                             // unknown fields are errors
  std::function<void(const std::string& key, int64_t tokens)> on_tokens{};  // used by a key
  bool cache_per_key = false;  // texts of different keys share no cached prompts
  AnswerLimits answers{};
};

class Service {
 public:
  using Post = std::function<void(std::function<void()>)>;
  using OnModel = std::function<void(ModelRegistry::LeaseHandle model, double load_seconds)>;

  Service(ServiceOptions options, RegistryOptions models, std::unique_ptr<ModelSource> source, Post post);

  const ServiceOptions& options() const { return options_; }
  ModelRegistry& models() { return models_; }
  Metrics& metrics() { return metrics_; }
  bool is_draining() const { return draining_; }

  // Calls `use` when the model is loaded. Exceptions of `use` and of loading become the answer of `exchange`.
  void with_model(const std::shared_ptr<Exchange>& exchange, const std::string& name,
                  std::optional<KeepAlive> keep_alive, OnModel use);
  // Starts the answer. Throws as Answer::start().
  void start(const std::shared_ptr<Exchange>& exchange, ModelRegistry::LeaseHandle model, AnswerRequest request);
  // Counts tokens that were computed for a key; "": the request had none.
  void count_tokens(const std::string& key, int64_t tokens) const;
  // Counts unknown fields, or refuses them if strict_requests is set.
  void note_unknown(const Fields& fields);
  void fail(Exchange& exchange, const ApiError& error);

  void tick();             // about twice a second
  void drain();            // accepts no further requests
  size_t running() const;  // waiting and running requests
  size_t connections() const { return connections_ ? connections_() : 0; }
  void count_connections(std::function<size_t()> count) { connections_ = std::move(count); }
  // Ends all answers with an error.
  void cancel_all();
  void run(std::function<void()> task) { post_(std::move(task)); }

 private:
  std::vector<std::shared_ptr<Answer>> answers();

  const ServiceOptions options_;
  const Post post_;
  std::function<size_t()> connections_;
  Metrics metrics_;
  std::atomic<bool> draining_ = false;
  mutable std::mutex mutex_;
  std::list<std::weak_ptr<Answer>> answers_;
  ModelRegistry models_;
};

// Parses a body of type JSON: throws ApiError 415 for another type.
Json body_of(const HttpRequest& request);
// A body that is read in parts: fields that name the model, and the others when the model is loaded.
struct RequestBody {
  explicit RequestBody(const HttpRequest& request) : json(body_of(request)), fields(json) {}
  RequestBody(const RequestBody&) = delete;
  RequestBody& operator=(const RequestBody&) = delete;

  const Json json;
  Fields fields;
};
void respond_json(Exchange& exchange, const Json& body);
int64_t unix_time();
std::string rfc3339_now();
std::string rfc3339(std::chrono::system_clock::time_point time);

}  // namespace gabbro::server
