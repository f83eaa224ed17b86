// The whole server: HTTP, access, routes and models.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/server/http/access.h"
#include "src/server/http/http_server.h"
#include "src/server/models/model_registry.h"
#include "src/server/models/model_source.h"
#include "src/server/service.h"

namespace gabbro::server {

struct ServerOptions {
  HttpOptions http{};
  AccessOptions access{};
  ServiceOptions service{};
  RegistryOptions models{};
  bool serves_without_key = false;                // also on addresses that others can reach
  std::function<void(const std::string&)> log{};  // a line for each request; empty: none
};

class Server {
 public:
  // Binds the addresses. Throws bad_input for an address that others can reach without a key, and as HttpServer.
  Server(ServerOptions options, std::unique_ptr<ModelSource> source);
  ~Server();

  void start();
  void load(const std::string& model);  // and keeps it; throws as Engine::load
  std::vector<std::string> addresses() const;
  int port() const;

  // Takes other keys from the next request on.
  void set_keys(std::vector<ApiKey> keys);
  // Another certificate, for connections from now on.
  void set_tls(std::shared_ptr<const TlsContext> tls);

  // No further requests; those that run have `limit` to end, and then get an error. Returns earlier when `hurry`
  // becomes true.
  void drain(std::chrono::milliseconds limit, const std::atomic<bool>& hurry);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gabbro::server
