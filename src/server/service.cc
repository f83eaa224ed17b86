#include "src/server/service.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <ctime>

namespace gabbro::server {

Service::Service(ServiceOptions options, RegistryOptions models, std::unique_ptr<ModelSource> source, Post post)
    : options_(std::move(options)), post_(post), models_(std::move(models), std::move(source), std::move(post)) {}

namespace {

void check_model(const HttpRequest& request, const std::string& id) {
  const std::vector<std::string>& models = request.key_models;
  if (!models.empty() && std::ranges::find(models, id) == models.end())
    throw ApiError(403, fmt::format("the key may not use the model {}", id), "model_not_allowed", "model");
}

}  // namespace

void Service::with_model(const std::shared_ptr<Exchange>& exchange, const std::string& name,
                         std::optional<KeepAlive> keep_alive, OnModel use) {
  if (draining_) throw overloaded("the server is shutting down");
  const auto start = std::chrono::steady_clock::now();
  const ModelEntry entry = models_.find(name);
  check_model(exchange->request(), entry.id);  // before it is loaded
  models_.acquire(
      entry, keep_alive,
      [this, exchange, start, use = std::move(use)](ModelRegistry::LeaseHandle lease,
                                                    const std::shared_ptr<const ModelRegistry::LoadFailure>& failure) {
        try {
          if (failure) return fail(*exchange, failure->answer);
          if (exchange->is_gone()) return;
          use(std::move(lease), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        } catch (...) {
          fail(*exchange, current_api_error());
        }
      });
}

void Service::start(const std::shared_ptr<Exchange>& exchange, ModelRegistry::LeaseHandle model,
                    AnswerRequest request) {
  request.on_end = [this, name = (*model)->entry().id, key = exchange->request().key_name](const AnswerTotals& totals) {
    metrics_.count_answer(name, totals);
    count_tokens(key, totals.prompt_tokens - totals.cached_tokens + totals.generated_tokens);
  };
  const HttpRequest& from = exchange->request();
  for (GenerationRequest& one : request.requests) {
    one.owner = from.key_name.empty() ? from.peer : from.key_name;
    if (options_.cache_per_key) one.tree = from.key_name + "\n" + one.tree;
  }
  const auto answer = std::make_shared<Answer>(exchange, std::move(model), std::move(request), options_.answers, post_);
  {
    const std::lock_guard lock(mutex_);
    answers_.push_back(answer);
  }
  answer->start();
}

void Service::count_tokens(const std::string& key, int64_t tokens) const {
  if (options_.on_tokens && !key.empty()) options_.on_tokens(key, tokens);
}

void Service::note_unknown(const Fields& fields) {
  const std::vector<std::string> names = fields.unknown();
  if (names.empty()) return;
  if (options_.strict_requests)
    throw ApiError(400, fmt::format("{}: is not known", names.front()), "unknown_parameter", names.front());
  for (const std::string& name : names) {
    if (metrics_.count_unknown_field(name)) spdlog::info("requests have the field {}, which is ignored", name);
  }
}

void Service::fail(Exchange& exchange, const ApiError& error) {
  if (error.status() == 500) spdlog::error("request {}: {}", exchange.request().id, error.what());
  exchange.respond(error_response(error, exchange.request()));
}

std::vector<std::shared_ptr<Answer>> Service::answers() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Answer>> alive;
  for (auto at = answers_.begin(); at != answers_.end();) {
    std::shared_ptr<Answer> answer = at->lock();
    if (answer == nullptr || answer->is_over()) {
      at = answers_.erase(at);
    } else {
      alive.push_back(std::move(answer));
      ++at;
    }
  }
  return alive;
}

void Service::tick() {
  for (const auto& answer : answers()) answer->tick();
  models_.unload_expired();
}

void Service::drain() { draining_ = true; }

size_t Service::running() const {
  size_t count = 0;
  for (const ModelRegistry::Status& status : models_.loaded()) count += status.waiting + status.running;
  return count;
}

void Service::cancel_all() {
  for (const auto& answer : answers()) answer->cancel(overloaded("the server is shutting down"));
}

Json body_of(const HttpRequest& request) {
  const std::string* const type = request.header("content-type");
  const std::string_view media = type == nullptr ? "" : std::string_view(*type).substr(0, type->find(';'));
  // Ollama's documents use curl -d, which says that it sends a form. A web page cannot: it has an Origin.
  const bool is_form = media.empty() || media == "application/x-www-form-urlencoded";
  const bool takes_form = dialect_of(request.path) == Dialect::kOllama && request.header("origin") == nullptr;
  if (media != "application/json" && !(is_form && takes_form))
    throw ApiError(415, "the Content-Type of a request is application/json");
  return parse_request(request.body);
}

void respond_json(Exchange& exchange, const Json& body) {
  exchange.respond({.body = body.dump(-1, ' ', false, Json::error_handler_t::replace)});
}

int64_t unix_time() { return static_cast<int64_t>(std::time(nullptr)); }

std::string rfc3339(std::chrono::system_clock::time_point time) {
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(static_cast<std::time_t>(since / 1'000'000)),
                     since % 1'000'000);
}

std::string rfc3339_now() { return rfc3339(std::chrono::system_clock::now()); }

}  // namespace gabbro::server
