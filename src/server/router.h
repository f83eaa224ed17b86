// Maps method and path to the handler: one table, filled by the groups of routes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/server/service.h"

namespace gabbro::server {

// Answers `exchange`, immediately or later. An exception becomes the answer.
using RouteHandler = std::function<void(Service& service, const std::shared_ptr<Exchange>& exchange)>;

// The summary of routes that answer 501.
inline constexpr std::string_view kNotServed = "Not supported";

struct Route {
  const char* method;
  const char* path;  // a "*" at the end stands for any text
  std::string_view summary;
  RouteHandler handle;
};

class Router {
 public:
  Router();  // all groups

  void add(Route route) { routes_.push_back(std::move(route)); }
  const std::vector<Route>& routes() const { return routes_; }

  void handle(Service& service, const std::shared_ptr<Exchange>& exchange) const;
  // The path of the route, for metrics; "(none)" without a route.
  std::string route_of(const HttpRequest& request) const;

 private:
  const Route* find(const HttpRequest& request) const;
  std::vector<Route> routes_;
};

// The groups (src/server/routes). A further group is a file and a line in Router().
void add_openai_chat(Router& router);
void add_openai_completions(Router& router);
void add_openai_embeddings(Router& router);
void add_openai_models(Router& router);
void add_ollama_generation(Router& router);
void add_ollama_models(Router& router);
void add_responses(Router& router);
void add_anthropic(Router& router);
void add_llama(Router& router);
void add_rerank(Router& router);
void add_tokens(Router& router);
void add_operations(Router& router);
void add_page(Router& router);
void add_refused(Router& router);

}  // namespace gabbro::server
