// Access to the server: hosts, origins and API keys. Pure: decides by the head of a request.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/server/api_error.h"
#include "src/server/http/key_limits.h"

namespace gabbro::server {

struct ApiKey {
  std::string name;
  std::string sha256;  // 64 lower-case hexadecimal digits
  // Routes that it may use: to compute, to see metrics, to manage models.
  bool infers = true, sees_metrics = true, manages = false;
  std::vector<std::string> models{};  // ids; empty: all
  KeyLimits limits{};
};

// One key a line: "name:SHA256", "name:KEY" or "KEY" (its name is "line N"), then options: scopes=infer,metrics,admin
// (without it infer,metrics), models=ID,ID, requests=N and tokens=N a minute, concurrent=N. "#" begins a comment.
// Throws bad_input that names file and line: a key shorter than 16 characters, a name that is there twice, an unknown
// option.
std::vector<ApiKey> parse_keys(std::string_view text, const std::string& file);

struct AccessOptions {
  bool is_loopback = true;                   // the server listens on loopback addresses only
  std::vector<std::string> allowed_hosts;    // names besides the loopback's
  std::vector<std::string> allowed_origins;  // "https://chat.example"; they get CORS headers
  std::vector<ApiKey> keys;                  // none: no key is asked for
};

class Access {
 public:
  explicit Access(AccessOptions options);

  // Takes other keys from the next request on. Called by any thread.
  void set_keys(std::vector<ApiKey> keys);

  // Nothing where the request may go on; then request.key_name is set. Preflight requests of allowed origins are
  // answered.
  std::optional<Response> check(HttpRequest& request);
  // The request is over.
  void done(const HttpRequest& request);
  // Tokens that a key used.
  void count_tokens(const std::string& key, int64_t tokens) { use_.count_tokens(key, tokens); }
  // Headers of the answer to a request of an allowed origin; else none.
  Headers cors_headers(const HttpRequest& request) const;

 private:
  bool allows_host(std::string_view host) const;
  bool allows_origin(const HttpRequest& request, std::string_view origin) const;
  std::optional<ApiError> refusal(HttpRequest& request);
  std::optional<ApiError> refusal_of_key(const ApiKey& key, HttpRequest& request);

  std::shared_ptr<const std::vector<ApiKey>> keys() const;

  AccessOptions options_;
  mutable std::mutex mutex_;
  std::shared_ptr<const std::vector<ApiKey>> keys_;
  KeyUse use_;
};

}  // namespace gabbro::server
