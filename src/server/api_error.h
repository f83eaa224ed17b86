// Errors of requests, in the forms of the dialects.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "gabbro/error.h"
#include "src/server/http/message.h"

namespace gabbro::server {

using Json = nlohmann::ordered_json;

// Ends a request. The status tells the kind; the other fields belong to OpenAI's error object.
class ApiError : public std::exception {
 public:
  ApiError(int status, const std::string& message, std::string code = {}, std::string param = {})
      : message_(message), status_(status), code_(std::move(code)), param_(std::move(param)) {}

  const char* what() const noexcept override { return message_.c_str(); }

  int status() const { return status_; }
  const std::string& code() const { return code_; }    // empty: null
  const std::string& param() const { return param_; }  // empty: null
  const char* type() const;                            // "invalid_request_error"

  Json extra = Json::object();  // further members of the error object
  Headers headers{};
  bool closes = false;
  int delay_ms = 0;

 private:
  std::string message_;
  int status_;
  std::string code_, param_;
};

enum class Dialect { kOpenAi, kOllama, kAnthropic };
Dialect dialect_of(std::string_view path);  // kOllama below /api/, kAnthropic below /v1/messages

// {"error":{"message","type","param","code"}}, {"error":"text"} or
// {"type":"error","error":{"type","message"},"request_id"}.
Json error_json(const ApiError& error, Dialect dialect, const std::string& request_id = {});
// In the dialect of the request's path.
Response error_response(const ApiError& error, const HttpRequest& request);

// The status of an error of the library: bad_input is 400, a lack of memory 503, all else 500.
ApiError api_error(const Error& error);
// The exception that is being handled.
ApiError current_api_error();

ApiError invalid_field(const std::string& param, const std::string& message);
ApiError unsupported(const std::string& param, const std::string& message);
ApiError overloaded(const std::string& message);  // 503 with Retry-After

}  // namespace gabbro::server
