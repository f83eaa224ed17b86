// HTTP requests of one thread over libcurl, which is opened at the first use. Proxies come from the environment
// (https_proxy, no_proxy ...); CURL_CA_BUNDLE or SSL_CERT_FILE names other certificates.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "src/base/error.h"

namespace gabbro::hub {

// A request that did not succeed. A transient one may do so when it is repeated.
class HttpError : public Error {
 public:
  enum class Kind {
    kConnect,  // no connection to the host
    kBroken,   // the connection broke or stalled
    kStatus,   // an answer such as 429
    kDown,     // an answer such as 503: the server does not work
    kFatal     // no repetition will help
  };
  HttpError(Kind kind, const std::string& message, std::string hint = {}, std::optional<double> retry_after = {})
      : Error(ErrorCode::kFailed, message, std::move(hint)), kind_(kind), retry_after_(retry_after) {}

  Kind kind() const { return kind_; }
  bool transient() const { return kind_ != Kind::kFatal; }
  std::optional<double> retry_after() const { return retry_after_; }  // seconds, as the server asks for

 private:
  Kind kind_;
  std::optional<double> retry_after_;
};

struct ByteRange {
  uint64_t begin = 0, end = 0;  // half open
  uint64_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

struct HttpRequest {
  std::string url;                 // http or https
  std::string token;               // sent in Authorization; empty: none
  std::optional<ByteRange> range;  // empty: everything
  long stall_seconds = 30;         // less than 1 KiB/s for this time is an error; 0: no limit
  long most_seconds = 0;           // of the whole request; 0: no limit
  std::string json{};              // the body of post()
};

struct HttpResponse {
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string error_body;                      // of another status than 200 and 206: its first 4 KiB
  std::string header(const std::string& name) const;
  bool is_redirect() const { return status >= 300 && status < 400 && headers.contains("location"); }
};

// Called with each piece of the body of an answer with status 200 or 206. Its exceptions end the request and are
// thrown by get().
using BodySink = std::function<void(const HttpResponse&, std::span<const std::byte>)>;

class HttpClient {
 public:
  // Requests end with kInterrupted soon after `stop` is true.
  explicit HttpClient(const std::atomic<bool>& stop);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // One request; redirects are not followed, and `sink` gets no bodies of other statuses than 200 and 206. The
  // connection stays open for the next request. Throws HttpError where there is no whole answer.
  HttpResponse get(const HttpRequest& request, const BodySink& sink);
  // As above, with the method POST and the body request.json.
  HttpResponse post(const HttpRequest& request, const BodySink& sink);

 private:
  HttpResponse perform(const HttpRequest& request, bool posts, const BodySink& sink);

  struct State;
  std::unique_ptr<State> state_;
};

// "https://host:port" in lower case, with the port always there; empty where the URL has no host.
std::string origin(const std::string& url);

// The address that `location` means in an answer to `url`: absolute, or relative to the host.
std::string join_url(const std::string& url, const std::string& location);

// Percent-encodes all but letters, digits and "-._~" (and '/', where `keep_slashes`).
std::string quote_url(const std::string& text, bool keep_slashes);

// Seconds of a header Retry-After, or of RateLimit (`"api";r=0;t=55`); empty where there is no such number.
std::optional<double> retry_after(const HttpResponse& response);

}  // namespace gabbro::hub
