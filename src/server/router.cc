#include "src/server/router.h"

#include <fmt/format.h>

namespace gabbro::server {
namespace {

bool matches(const Route& route, std::string_view path) {
  const std::string_view pattern = route.path;
  if (!pattern.ends_with('*')) return pattern == path;
  const std::string_view begin = pattern.substr(0, pattern.size() - 1);
  return path.starts_with(begin) && path.size() > begin.size();
}

}  // namespace

Router::Router() {
  add_openai_chat(*this);
  add_openai_completions(*this);
  add_openai_embeddings(*this);
  add_openai_models(*this);
  add_ollama_generation(*this);
  add_ollama_models(*this);
  add_responses(*this);
  add_anthropic(*this);
  add_llama(*this);
  add_rerank(*this);
  add_tokens(*this);
  add_operations(*this);
  add_page(*this);
  add_refused(*this);
}

const Route* Router::find(const HttpRequest& request) const {
  for (const Route& route : routes_) {
    const bool is_method =
        request.method == route.method || (request.method == "HEAD" && std::string_view(route.method) == "GET");
    if (is_method && matches(route, request.path)) return &route;
  }
  return nullptr;
}

std::string Router::route_of(const HttpRequest& request) const {
  const Route* const route = find(request);
  return route != nullptr ? route->path : "(none)";
}

void Router::handle(Service& service, const std::shared_ptr<Exchange>& exchange) const {
  const HttpRequest& request = exchange->request();
  try {
    if (const Route* const route = find(request)) return route->handle(service, exchange);
    std::string allowed;
    for (const Route& route : routes_) {
      if (matches(route, request.path)) allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", route.method);
    }
    if (allowed.empty()) throw ApiError(404, "there is no such route", "unknown_url");
    ApiError error(405, fmt::format("the route takes {}", allowed), "method_not_supported");
    error.headers.emplace_back("Allow", allowed);
    throw error;
  } catch (...) {
    service.fail(*exchange, current_api_error());
  }
}

}  // namespace gabbro::server
