// Health, readiness, metrics, version, the OpenAPI document.
#include <fmt/format.h>

#include "src/server/router.h"
#include "src/server/routes/request_schemas.h"

namespace gabbro::server {
namespace {

void answer_health(Service&, const std::shared_ptr<Exchange>& exchange) { respond_json(*exchange, {{"status", "ok"}}); }

void answer_ready(Service& service, const std::shared_ptr<Exchange>& exchange) {
  if (service.is_draining()) throw overloaded("the server is shutting down");
  if (service.models().is_loading()) throw overloaded("a model is loading");
  if (service.models().is_restarting()) throw overloaded("an engine that was lost is started again");
  respond_json(*exchange, {{"status", "ready"}});
}

void answer_version(Service& service, const std::shared_ptr<Exchange>& exchange) {
  respond_json(*exchange, {{"version", service.options().version}});
}

void answer_metrics(Service& service, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond({.body = service.metrics().text(service.models().loaded(), service.connections()),
                     .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

// The routes that are served, with the fields that most requests have; docs/guides/server.md has the others.
void answer_openapi(Service& service, const std::shared_ptr<Exchange>& exchange, const Router& router) {
  Json paths = Json::object();
  for (const Route& route : router.routes()) {
    if (route.summary == kNotServed) continue;
    std::string path = route.path, method = route.method;
    for (char& c : method) c = static_cast<char>(c + 32);
    const bool has_name = path.ends_with('*');
    if (has_name) path = path.substr(0, path.size() - 1) + "{name}";
    Json operation = {
        {"summary", route.summary},
        {"responses",
         {{"200", {{"description", "The answer"}}},
          {"default",
           {{"description", "An error"}, {"content", {{"application/json", {{"schema", {{"type", "object"}}}}}}}}}}}};
    if (method == "post") {
      operation["requestBody"] = {{"required", true},
                                  {"content", {{"application/json", {{"schema", request_schema_of(path)}}}}}};
    }
    if (has_name) {
      operation["parameters"] =
          Json::array({{{"name", "name"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}});
    }
    paths[path][method] = std::move(operation);
  }
  respond_json(*exchange, {{"openapi", "3.1.0"},
                           {"info", {{"title", "Gabbro"}, {"version", service.options().version}}},
                           {"paths", std::move(paths)},
                           {"components", {{"schemas", request_schemas()}}}});
}

}  // namespace

void add_operations(Router& router) {
  router.add({"GET", "/health", "Whether the server runs", answer_health});
  router.add({"GET", "/v1/health", "Whether the server runs", answer_health});
  router.add({"GET", "/ready", "Whether it takes requests at once", answer_ready});
  router.add({"GET", "/version", "The program's version", answer_version});
  router.add({"GET", "/metrics", "Counters in the text format of Prometheus", answer_metrics});
  router.add({"GET", "/openapi.json", "This description",
              [&router](Service& service, const std::shared_ptr<Exchange>& exchange) {
                answer_openapi(service, exchange, router);
              }});
}

}  // namespace gabbro::server
