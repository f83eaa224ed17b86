#include "src/server/server.h"

#include <algorithm>
#include <thread>

#include "src/base/error.h"
#include "src/server/router.h"

namespace gabbro::server {
namespace {

constexpr std::chrono::milliseconds kServiceTick{500};
constexpr std::chrono::milliseconds kListensOn{1'000};  // after the begin of a shutdown: so that /ready can say it
constexpr std::chrono::milliseconds kLastEvents{500};

bool is_loopback(const std::string& host) { return host == "::1" || host.starts_with("127."); }

}  // namespace

struct Server::State {
  State(ServerOptions given, std::unique_ptr<ModelSource> source)
      : options(std::move(given)),
        access(options.access),
        service(with_counter(options.service, access), options.models, std::move(source),
                [this](std::function<void()> task) { http->post(std::move(task)); }) {}

  static ServiceOptions with_counter(ServiceOptions options, Access& access) {
    options.on_tokens = [&access](const std::string& key, int64_t tokens) { access.count_tokens(key, tokens); };
    return options;
  }

  void log(const HttpRequest& request, int status, double seconds) {
    service.metrics().count_request(router.route_of(request),
                                    router.route_of(request) == "(none)" ? "(any)" : request.method, status, seconds);
    if (!options.log) return;
    options.log(fmt::format("{} {} {} {} {} {:.1f} ms{}", request.id, request.peer, request.method,
                            router.route_of(request), status, seconds * 1e3,
                            request.key_name.empty() ? "" : " key " + request.key_name));
  }

  ServerOptions options;
  Access access;
  Router router;
  std::unique_ptr<HttpServer> http;
  Service service;
};

Server::Server(ServerOptions options, std::unique_ptr<ModelSource> source) {
  const auto check = [&](bool is_loopback, const std::string& address) {
    if (is_loopback) return;
    options.access.is_loopback = false;
    if (options.access.keys.empty() && !options.serves_without_key)
      throw Error(ErrorCode::kBadInput, fmt::format("{} can be reached by others, and no key is asked for", address),
                  "--keys FILE names the keys, or --no-auth serves everybody");
  };
  for (const int descriptor : options.http.descriptors)
    check(is_loopback_socket(descriptor), fmt::format("the socket of descriptor {}", descriptor));
  for (const std::string& host : options.http.hosts) check(is_loopback(host), host);
  const HttpOptions http = options.http;
  state_ = std::make_unique<State>(std::move(options), std::move(source));
  State* const state = state_.get();
  state->http = std::make_unique<HttpServer>(
      http,
      HttpHandlers{
          .check = [state](HttpRequest& request) { return state->access.check(request); },
          .handle =
              [state](const std::shared_ptr<Exchange>& exchange) { state->router.handle(state->service, exchange); },
          .refuse = [](const HttpRequest& request, int status,
                       const std::string& message) { return error_response(ApiError(status, message), request); },
          .headers = [state](const HttpRequest& request) { return state->access.cors_headers(request); },
          .done =
              [state](const HttpRequest& request, int status, double seconds) {
                state->access.done(request);
                state->log(request, status, seconds);
              }});
  state->service.count_connections([state] { return state->http->connections(); });
  state->http->every(kServiceTick, [state] { state->service.tick(); });
}

Server::~Server() {
  if (state_ == nullptr || state_->http == nullptr) return;
  state_->http->stop();
}

void Server::start() { state_->http->start(); }
void Server::load(const std::string& model) { state_->service.models().load_now(model); }
std::vector<std::string> Server::addresses() const { return state_->http->addresses(); }
int Server::port() const { return state_->http->port(); }

void Server::set_keys(std::vector<ApiKey> keys) { state_->access.set_keys(std::move(keys)); }

void Server::set_tls(std::shared_ptr<const TlsContext> tls) { state_->http->set_tls(std::move(tls)); }

void Server::drain(std::chrono::milliseconds limit, const std::atomic<bool>& hurry) {
  const auto start = std::chrono::steady_clock::now();
  const auto wait_until = [&](std::chrono::steady_clock::time_point end, const auto& is_done) {
    while (std::chrono::steady_clock::now() < end && !hurry && !is_done())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  state_->service.drain();
  wait_until(start + std::min(kListensOn, limit), [&] { return state_->service.running() == 0; });
  state_->http->stop_accepting();
  wait_until(start + limit, [&] { return state_->service.running() == 0; });
  state_->service.cancel_all();
  wait_until(std::chrono::steady_clock::now() + kLastEvents,
             [&] { return state_->service.running() == 0 && state_->http->connections() == 0; });
}

}  // namespace gabbro::server
