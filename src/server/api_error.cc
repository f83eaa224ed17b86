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

Dialect dialect_of(std::string_view path) { return path.starts_with("/api/") ? Dialect::kOllama : Dialect::kOpenAi; }

Json error_json(const ApiError& error, Dialect dialect) {
  if (dialect == Dialect::kOllama) return {{"error", error.what()}};
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json body = {{"message", error.what()},
               {"type", error.type()},
               {"param", or_null(error.param())},
               {"code", or_null(error.code())}};
  for (const auto& [name, value] : error.extra.items()) body[name] = value;
  return {{"error", std::move(body)}};
}

Response error_response(const ApiError& error, Dialect dialect) {
  return {.status = error.status(),
          .body = error_json(error, dialect).dump(-1, ' ', false, Json::error_handler_t::replace),
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
