#include "src/server/http/access.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <span>

#include "src/base/error.h"
#include "src/hub/digest.h"
#include "src/hub/text.h"

namespace gabbro::server {
namespace {

constexpr size_t kShortestKey = 16;
constexpr int kFailedKeyDelay = 50;  // ms: so that keys cannot be tried quickly

std::string sha256_of(std::string_view text) {
  hub::Digest digest(hub::Digest::Kind::kSha256);
  digest.update(std::as_bytes(std::span(text)));
  return digest.finish();
}

bool is_sha256_text(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Takes the same time whatever the first difference is.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  return difference == 0;
}

// "[::1]:80" as "[::1]", "localhost:80" as "localhost".
std::string host_name(std::string_view host) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.rfind(':');
  if (colon != host.npos && (bracket == host.npos || colon > bracket)) host = host.substr(0, colon);
  return hub::lower_case(host);
}

// Four numbers of 0 to 255.
bool is_ipv4(std::string_view text) {
  int parts = 0;
  while (true) {
    const size_t dot = text.find('.');
    const std::string_view part = text.substr(0, dot);
    if (part.empty() || part.size() > 3 || !std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; }))
      return false;
    ++parts;
    if (dot == text.npos) return parts == 4;
    text.remove_prefix(dot + 1);
  }
}

bool is_loopback_name(std::string_view name) {
  return name == "localhost" || name.ends_with(".localhost") || name == "[::1]" ||
         (name.starts_with("127.") && is_ipv4(name));
}

bool is_free(const HttpRequest& request) {
  return request.path == "/health" || request.path == "/v1/health" || request.path == "/ready" || request.path == "/" ||
         request.path.starts_with("/page/");
}

}  // namespace

namespace {

// The text before `separator`, which is taken from `text` with it.
std::string_view take_until(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return part;
}

constexpr int64_t kMostLimit = int64_t{1} << 40;

// One of "name=value" after a key.
void read_option(std::string_view option, ApiKey& key, const std::string& where) {
  std::string_view value = option;
  const std::string_view name = take_until(value, '=');
  if (name == "scopes") {
    key.infers = key.sees_metrics = key.manages = false;
    while (!value.empty()) {
      const std::string_view scope = take_until(value, ',');
      bool* const flag = scope == "infer"     ? &key.infers
                         : scope == "metrics" ? &key.sees_metrics
                         : scope == "admin"   ? &key.manages
                                              : nullptr;
      if (flag == nullptr) throw bad_input("{}: the scope '{}' is not infer, metrics or admin", where, scope);
      *flag = true;
    }
  } else if (name == "models") {
    while (!value.empty()) key.models.emplace_back(take_until(value, ','));
    if (key.models.empty()) throw bad_input("{}: models= names no model", where);
  } else if (int64_t* const limit = name == "requests"     ? &key.limits.requests
                                    : name == "tokens"     ? &key.limits.tokens
                                    : name == "concurrent" ? &key.limits.concurrent
                                                           : nullptr) {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *limit);
    if (error != std::errc() || end != value.data() + value.size() || *limit < 1 || *limit > kMostLimit)
      throw bad_input("{}: {} is not a number from 1 on", where, option);
  } else {
    throw bad_input("{}: '{}' is not scopes=, models=, requests=, tokens= or concurrent=", where, option);
  }
}

bool is_management(std::string_view path) {
  return path == "/api/pull" || path == "/api/delete" || path == "/api/create" || path == "/api/copy" ||
         path == "/api/push";
}

}  // namespace

std::vector<ApiKey> parse_keys(std::string_view text, const std::string& file) {
  std::vector<ApiKey> keys;
  std::set<std::string> names;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = hub::trim(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    size_t colon = line.find(':');
    if (line.substr(0, colon).find('=') != line.npos) colon = line.npos;  // it is in an option
    const std::string name(colon == line.npos ? fmt::format("line {}", number) : hub::trim(line.substr(0, colon)));
    std::string_view rest = colon == line.npos ? line : hub::trim(line.substr(colon + 1));
    const std::string_view key = take_until(rest, ' ');
    if (name.empty()) throw bad_input("{}: line {}: the key has no name", file, number);
    if (key.size() < kShortestKey)
      throw bad_input("{}: line {}: a key has at least {} characters", file, number, kShortestKey);
    if (!names.insert(name).second) throw bad_input("{}: line {}: the name {} is there twice", file, number, name);
    ApiKey made{.name = name, .sha256 = is_sha256_text(key) ? std::string(key) : sha256_of(key)};
    while (!rest.empty()) {
      const std::string_view option = take_until(rest, ' ');
      if (!option.empty()) read_option(option, made, fmt::format("{}: line {}", file, number));
    }
    keys.push_back(std::move(made));
  }
  if (keys.empty()) throw bad_input("{}: has no key", file);
  return keys;
}

Access::Access(AccessOptions options) : options_(std::move(options)) { set_keys(std::move(options_.keys)); }

void Access::set_keys(std::vector<ApiKey> keys) {
  auto next = std::make_shared<const std::vector<ApiKey>>(std::move(keys));
  const std::lock_guard lock(mutex_);
  keys_.swap(next);
}

std::shared_ptr<const std::vector<ApiKey>> Access::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

bool Access::allows_host(std::string_view host) const {
  const std::string name = host_name(host);
  if (is_loopback_name(name) || std::ranges::find(options_.allowed_hosts, name) != options_.allowed_hosts.end())
    return true;
  if (options_.is_loopback) return false;
  // A web page that rebinds its name cannot name an address, nor has it a key.
  return is_ipv4(name) || name.starts_with('[') || !keys()->empty();
}

bool Access::allows_origin(const HttpRequest& request, std::string_view origin) const {
  if (std::ranges::find(options_.allowed_origins, origin) != options_.allowed_origins.end()) return true;
  const std::string* const host = request.header("host");
  return host != nullptr && (origin == "http://" + *host || origin == "https://" + *host);
}

std::optional<ApiError> Access::refusal_of_key(const ApiKey& key, HttpRequest& request) {
  request.key_name = key.name;
  request.key_models = key.models;
  const bool is_metrics = request.path == "/metrics";
  const bool may = is_metrics ? key.sees_metrics : is_management(request.path) ? key.manages : key.infers;
  if (!may) {
    return ApiError(403,
                    fmt::format("the key lacks the scope {}", is_metrics                    ? "metrics"
                                                              : is_management(request.path) ? "admin"
                                                                                            : "infer"),
                    "insufficient_scope");
  }
  if (request.method != "POST" || key.limits == KeyLimits{}) return std::nullopt;
  if (const auto refused = use_.begin(key.name, key.limits)) {
    ApiError error(429, refused->message, "rate_limit_exceeded");
    error.headers.emplace_back("Retry-After", std::to_string(refused->retry_after.count()));
    return error;
  }
  request.takes_place = true;
  return std::nullopt;
}

void Access::done(const HttpRequest& request) {
  if (request.takes_place) use_.end(request.key_name);
}

std::optional<ApiError> Access::refusal(HttpRequest& request) {
  const std::string* const host = request.header("host");
  if (host != nullptr && !allows_host(*host)) {
    return ApiError(403, fmt::format("the host name '{}' is not allowed; --allowed-hosts adds it", *host));
  }
  const std::string* const origin = request.header("origin");
  if (origin != nullptr && !allows_origin(request, *origin)) {
    return ApiError(403, fmt::format("the origin '{}' is not allowed; --allowed-origins adds it", *origin));
  }
  const std::string* const site = request.header("sec-fetch-site");
  if (origin == nullptr && site != nullptr && *site == "cross-site" && !is_free(request))
    return ApiError(403, "requests of other sites are not allowed; --allowed-origins adds them");
  const auto known = keys();
  if (known->empty() || is_free(request)) return std::nullopt;
  std::string_view given;
  if (const std::string* const bearer = request.header("authorization")) {
    constexpr std::string_view kScheme = "bearer ";
    if (hub::lower_case(bearer->substr(0, kScheme.size())) == kScheme)
      given = std::string_view(*bearer).substr(kScheme.size());
  } else if (const std::string* const key = request.header("x-api-key")) {
    given = *key;
  }
  const std::string digest = sha256_of(given);
  const ApiKey* found = nullptr;
  for (const ApiKey& key : *known) {
    if (equal_in_constant_time(key.sha256, digest)) found = &key;
  }
  if (found != nullptr && !given.empty()) return refusal_of_key(*found, request);
  ApiError error(401, given.empty() ? "an API key is needed: Authorization: Bearer KEY" : "the API key is wrong",
                 "invalid_api_key");
  error.headers.emplace_back("WWW-Authenticate", "Bearer");
  error.delay_ms = kFailedKeyDelay;
  return error;
}

Headers Access::cors_headers(const HttpRequest& request) const {
  const std::string* const origin = request.header("origin");
  if (origin == nullptr || std::ranges::find(options_.allowed_origins, *origin) == options_.allowed_origins.end())
    return {};
  return {{"Access-Control-Allow-Origin", *origin}, {"Vary", "Origin"}};
}

std::optional<Response> Access::check(HttpRequest& request) {
  if (request.method == "OPTIONS" && request.header("access-control-request-method") != nullptr) {
    Headers headers = cors_headers(request);
    if (headers.empty()) return error_response(ApiError(403, "the origin is not allowed"), request);
    const std::string* const wanted = request.header("access-control-request-headers");
    headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    if (wanted != nullptr) headers.emplace_back("Access-Control-Allow-Headers", *wanted);
    headers.emplace_back("Access-Control-Max-Age", "600");
    return Response{.status = 204, .content_type = "", .headers = std::move(headers)};
  }
  const auto error = refusal(request);
  if (!error) return std::nullopt;
  return error_response(*error, request);
}

}  // namespace gabbro::server
