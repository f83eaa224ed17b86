#include "src/server/api_error.h"

#include <fmt/format.h>

#include <new>

namespace gabbro::server {

const char* ApiError::type() const {
  switch (status_) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 500:
    case 504:
      return "server_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "unavailable_error";
    default:
      return "invalid_request_error";
  }
}

Dialect dialect_of(std::string_view path) {
  if (path.starts_with("/api/")) return Dialect::kOllama;
  return path.starts_with("/v1/messages") ? Dialect::kAnthropic : Dialect::kOpenAi;
}

namespace {

const char* anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 500:
      return "api_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return "invalid_request_error";
  }
}

Json anthropic_error(const ApiError& error, const std::string& request_id) {
  std::string message = error.what();
  // Agents look for these words before they make the conversation shorter.
  if (error.code() == "context_length_exceeded")
    message = fmt::format("prompt is too long: {} tokens > {} maximum", error.extra.value("n_prompt_tokens", 0),
                          error.extra.value("n_ctx", 0));
  return {{"type", "error"},
          {"error", {{"type", anthropic_type(error.status())}, {"message", message}}},
          {"request_id", request_id}};
}

int status_in(Dialect dialect, int status) {
  if (dialect != Dialect::kAnthropic) return status;
  return status == 503 ? 529 : status == 501 ? 400 : status;
}

}  // namespace

Json error_json(const ApiError& error, Dialect dialect, const std::string& request_id) {
  if (dialect == Dialect::kOllama) return {{"error", error.what()}};
  if (dialect == Dialect::kAnthropic) return anthropic_error(error, request_id);
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json body = {{"message", error.what()},
               {"type", error.type()},
               {"param", or_null(error.param())},
               {"code", or_null(error.code())}};
  for (const auto& [name, value] : error.extra.items()) body[name] = value;
  return {{"error", std::move(body)}};
}

Response error_response(const ApiError& error, const HttpRequest& request) {
  const Dialect dialect = dialect_of(request.path);
  return {.status = status_in(dialect, error.status()),
          .body = error_json(error, dialect, request.id).dump(-1, ' ', false, Json::error_handler_t::replace),
          .headers = error.headers,
          .closes = error.closes,
          .delay_ms = error.delay_ms};
}

ApiError api_error(const Error& error) {
  const std::string message =
      error.hint().empty() ? std::string(error.what()) : fmt::format("{} ({})", error.what(), error.hint());
  if (error.code() == ErrorCode::kBadInput) return {400, message};
  if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) return overloaded(message);
  ApiError result(500, message);
  // A retry of this request would fail again.
  result.headers.emplace_back("x-should-retry", "false");
  return result;
}

ApiError current_api_error() {
  try {
    throw;
  } catch (const ApiError& error) {
    return error;
  } catch (const Error& error) {
    return api_error(error);
  } catch (const std::bad_alloc&) {
    return overloaded("not enough memory");
  } catch (const std::exception& error) {
    return {500, fmt::format("internal error: {}", error.what())};
  }
}

ApiError invalid_field(const std::string& param, const std::string& message) {
  return {400, fmt::format("{}: {}", param, message), "invalid_value", param};
}

ApiError unsupported(const std::string& param, const std::string& message) {
  return {400, fmt::format("{}: {}", param, message), "unsupported_parameter", param};
}

ApiError overloaded(const std::string& message) {
  ApiError error(503, message, "server_overloaded");
  error.headers = {{"Retry-After", "1"}, {"retry-after-ms", "1000"}};
  return error;
}

}  // namespace gabbro::server
