// A server with scripted models: scripted_server CONFIG.json. Prints its port, and ends with its standard input.
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "src/base/error.h"
#include "src/server/http/tls.h"
#include "src/server/server.h"
#include "tests/server/scripted_model.h"

namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

gabbro::server::ServerOptions options_of(const Json& config) {
  gabbro::server::ServerOptions options;
  options.http.hosts = config.value("hosts", std::vector<std::string>{"127.0.0.1"});
  options.http.port = config.value("port", 0);
  gabbro::server::HttpLimits& limits = options.http.limits;
  const auto take = [&](const char* name, milliseconds& time) {
    if (config.contains(name)) time = milliseconds(config[name].get<int>());
  };
  take("header_ms", limits.header_time);
  take("body_ms", limits.body_time);
  take("idle_ms", limits.idle_time);
  take("write_ms", limits.write_time);
  take("rate_window_ms", limits.rate_window);
  take("first_ping_ms", options.service.answers.first_ping);
  take("ping_ms", options.service.answers.ping);
  take("request_ms", options.service.answers.request_time);
  take("pause_ms", options.service.answers.pause_time);
  take("keep_alive_ms", options.models.keep_alive);
  take("room_ms", options.models.patience);
  limits.body_bytes = config.value("body_bytes", limits.body_bytes);
  limits.connections = config.value("connections", limits.connections);
  limits.connections_per_address = config.value("connections_per_address", limits.connections_per_address);
  options.service.version = config.value("version", "test");
  options.service.strict_requests = config.value("strict", false);
  options.service.answers.unsent_bytes = config.value("unsent_bytes", options.service.answers.unsent_bytes);
  options.service.answers.pause_bytes = config.value("pause_bytes", options.service.answers.pause_bytes);
  options.service.cache_per_key = config.value("cache_per_key", false);
  options.models.queue_limit = config.value("queue", options.models.queue_limit);
  options.models.memory = config.value("memory", uint64_t{0});
  options.models.serves_any_name = config.value("any_model", false);
  const Json aliases = config.value("aliases", Json::object());  // outlives the loop
  for (const auto& [name, model] : aliases.items()) options.models.aliases.emplace_back(name, model.get<std::string>());
  if (config.contains("keys"))
    options.access.keys = gabbro::server::parse_keys(config["keys"].get<std::string>(), "keys");
  options.http.paths = config.value("paths", std::vector<std::string>{});
  if (config.contains("certificate"))
    options.http.tls = gabbro::server::TlsContext::load(config["certificate"].get<std::string>(),
                                                        config["private_key"].get<std::string>());
  options.access.allowed_hosts = config.value("allowed_hosts", std::vector<std::string>{});
  options.access.allowed_origins = config.value("allowed_origins", std::vector<std::string>{});
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::signal(SIGPIPE, SIG_IGN);
  try {
    std::ifstream file(argv[1]);
    const Json config = Json::parse(file);
    gabbro::server::Server server(options_of(config),
                                  std::make_unique<gabbro::test::ScriptedModels>(config.at("models")));
    server.start();
    for (const Json& name : config.value("load", Json::array())) server.load(name.get<std::string>());
    std::printf("%d\n", server.port());
    std::fflush(stdout);
    // A line drains the server within that many milliseconds; the end of the input ends it at once.
    std::string line;
    if (std::getline(std::cin, line)) {
      const std::atomic<bool> hurry = false;
      server.drain(milliseconds(std::stoi(line)), hurry);
    }
  } catch (const gabbro::Error& error) {
    std::fprintf(stderr, "error: %s\nhint: %s\n", error.what(), error.hint().c_str());
    return static_cast<int>(error.code());
  }
  return 0;
}
