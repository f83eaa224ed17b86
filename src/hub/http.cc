#include "src/hub/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <exception>

#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/hub/settings.h"
#include "src/hub/shared_library.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

constexpr size_t kMostHeaderBytes = 256 << 10;
constexpr size_t kMostDroppedBytes = size_t{1} << 20;  // of an error's page, which no one reads
constexpr size_t kMostErrorBytes = 4 << 10;
constexpr long kConnectSeconds = 20, kSlowestBytes = 1024;

struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) init;
  decltype(&curl_easy_cleanup) cleanup;
  decltype(&curl_easy_reset) reset;
  decltype(&curl_easy_setopt) setopt;
  decltype(&curl_easy_perform) perform;
  decltype(&curl_easy_getinfo) getinfo;
  decltype(&curl_easy_strerror) strerror;
  decltype(&curl_slist_append) append;
  decltype(&curl_slist_free_all) free_list;
};

const Curl& curl() {
  static const Curl table = [] {
    // The flavor with GnuTLS has the same functions.
    const SharedLibrary library({"libcurl.so.4", "libcurl-gnutls.so.4"}, "libcurl4");
    Curl c{};
    library.bind("curl_global_init", c.global_init);
    library.bind("curl_easy_init", c.init);
    library.bind("curl_easy_cleanup", c.cleanup);
    library.bind("curl_easy_reset", c.reset);
    library.bind("curl_easy_setopt", c.setopt);
    library.bind("curl_easy_perform", c.perform);
    library.bind("curl_easy_getinfo", c.getinfo);
    library.bind("curl_easy_strerror", c.strerror);
    library.bind("curl_slist_append", c.append);
    library.bind("curl_slist_free_all", c.free_list);
    if (c.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw failed("libcurl cannot be initialized");
    return c;
  }();
  return table;
}

// The state that a request's callbacks share.
struct Exchange {
  void* handle;
  const std::atomic<bool>& stop;
  const BodySink& sink;
  HttpResponse response;
  size_t header_bytes = 0, dropped_bytes = 0;
  std::exception_ptr thrown;
};

size_t on_header(char* data, size_t, size_t size, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view line = trim(std::string_view(data, size));
  exchange.header_bytes += size;
  if (exchange.header_bytes > kMostHeaderBytes) return 0;
  if (line.starts_with("HTTP/")) exchange.response.headers.clear();  // of a proxy, or 100 Continue, before
  if (const size_t colon = line.find(':'); colon != std::string_view::npos)
    exchange.response.headers[lower_case(line.substr(0, colon))] = trim(line.substr(colon + 1));
  return size;
}

size_t on_body(char* data, size_t, size_t size, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  try {
    curl().getinfo(exchange.handle, CURLINFO_RESPONSE_CODE, &exchange.response.status);
    if (exchange.response.status == 200 || exchange.response.status == 206) {
      exchange.sink(exchange.response, std::as_bytes(std::span(data, size)));
    } else if ((exchange.dropped_bytes += size) > kMostDroppedBytes) {
      return 0;
    } else {
      std::string& body = exchange.response.error_body;
      body.append(data, std::min(size, kMostErrorBytes - body.size()));
    }
    return size;
  } catch (...) {
    exchange.thrown = std::current_exception();
    return 0;
  }
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Exchange*>(user)->stop ? 1 : 0;
}

// "host" of a URL, for messages: never a query, which may hold a signature.
std::string host_of(const std::string& url) {
  const std::string place = origin(url);
  return place.substr(place.find("//") + 2);
}

HttpError error_of(CURLcode code, const std::string& url, const char* detail) {
  const std::string what =
      fmt::format("{}: {}", host_of(url), *detail != '\0' ? std::string(detail) : std::string(curl().strerror(code)));
  using enum HttpError::Kind;
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      return {kConnect, what, "check the connection, and https_proxy where there is a proxy"};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return {kFatal, what, "CURL_CA_BUNDLE or SSL_CERT_FILE names the file of the certificates to trust"};
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_OUT_OF_MEMORY:
      return {kFatal, what};
    default:
      return {kBroken, what};
  }
}

std::string certificates() {
  const std::string bundle = variable("CURL_CA_BUNDLE");
  return bundle.empty() ? variable("SSL_CERT_FILE") : bundle;
}

}  // namespace

struct HttpClient::State {
  CURL* handle = curl().init();
  const std::atomic<bool>& stop;
  explicit State(const std::atomic<bool>& stop_flag) : stop(stop_flag) {
    if (handle == nullptr) throw failed("libcurl cannot make a connection");
  }
  ~State() { curl().cleanup(handle); }
};

HttpClient::HttpClient(const std::atomic<bool>& stop) : state_(std::make_unique<State>(stop)) {}
HttpClient::~HttpClient() = default;

HttpResponse HttpClient::get(const HttpRequest& request, const BodySink& sink) { return perform(request, false, sink); }
HttpResponse HttpClient::post(const HttpRequest& request, const BodySink& sink) { return perform(request, true, sink); }

HttpResponse HttpClient::perform(const HttpRequest& request, bool posts, const BodySink& sink) {
  const std::string host = origin(request.url);
  if (!host.starts_with("https://") && !host.starts_with("http://"))
    throw HttpError(HttpError::Kind::kFatal, fmt::format("{}: is not an http address", quote(request.url)));
  const Curl& c = curl();
  CURL* handle = state_->handle;
  Exchange exchange{.handle = handle, .stop = state_->stop, .sink = sink};
  char detail[CURL_ERROR_SIZE] = "";
  curl_slist* list = c.append(nullptr, "Accept-Encoding: identity");
  if (!request.token.empty()) list = c.append(list, fmt::format("Authorization: Bearer {}", request.token).c_str());
  if (posts) list = c.append(c.append(list, "Content-Type: application/json"), "Expect:");  // no wait for 100 Continue
  const std::unique_ptr<curl_slist, decltype(c.free_list)> headers(list, c.free_list);
  const std::string bundle = certificates();
  c.reset(handle);  // keeps connections
  c.setopt(handle, CURLOPT_URL, request.url.c_str());
  c.setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  c.setopt(handle, CURLOPT_USERAGENT, "gabbro");
  c.setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  c.setopt(handle, CURLOPT_NOSIGNAL, 1L);
  c.setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  c.setopt(handle, CURLOPT_LOW_SPEED_LIMIT, kSlowestBytes);
  c.setopt(handle, CURLOPT_LOW_SPEED_TIME, request.stall_seconds);
  c.setopt(handle, CURLOPT_TIMEOUT, request.most_seconds);
  c.setopt(handle, CURLOPT_BUFFERSIZE, 256L << 10);
  c.setopt(handle, CURLOPT_ERRORBUFFER, detail);
  c.setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
  c.setopt(handle, CURLOPT_HEADERDATA, &exchange);
  c.setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
  c.setopt(handle, CURLOPT_WRITEDATA, &exchange);
  c.setopt(handle, CURLOPT_NOPROGRESS, 0L);
  c.setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  c.setopt(handle, CURLOPT_XFERINFODATA, &exchange);
  if (!bundle.empty()) c.setopt(handle, CURLOPT_CAINFO, bundle.c_str());
  if (posts) {
    c.setopt(handle, CURLOPT_POST, 1L);
    c.setopt(handle, CURLOPT_POSTFIELDS, request.json.data());
    c.setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.json.size()));
  }
  std::string range;
  if (request.range) {
    range = fmt::format("{}-{}", request.range->begin, request.range->end - 1);
    c.setopt(handle, CURLOPT_RANGE, range.c_str());
  }
  const CURLcode code = c.perform(handle);
  if (exchange.thrown) std::rethrow_exception(exchange.thrown);
  if (code == CURLE_ABORTED_BY_CALLBACK) throw Error(ErrorCode::kInterrupted, "interrupted");
  const bool known = exchange.dropped_bytes > kMostDroppedBytes;  // status and headers, which is all that is needed
  if (code != CURLE_OK && !known) throw error_of(code, request.url, detail);
  c.getinfo(handle, CURLINFO_RESPONSE_CODE, &exchange.response.status);
  return exchange.response;
}

std::string HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found != headers.end() ? found->second : "";
}

std::string origin(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return "";
  const size_t begin = scheme + 3, end = std::min(url.find_first_of("/?#", begin), url.size());
  std::string host = lower_case(url.substr(begin, end - begin));
  host = host.substr(host.rfind('@') + 1);
  const std::string protocol = lower_case(url.substr(0, scheme));
  if (host.empty()) return "";
  const bool has_port = host.find(':', host.rfind(']') == std::string::npos ? 0 : host.rfind(']')) != std::string::npos;
  if (!has_port) host += protocol == "https" ? ":443" : ":80";
  return protocol + "://" + host;
}

std::string join_url(const std::string& url, const std::string& location) {
  if (location.find("://") != std::string::npos && location.find("://") < location.find_first_of("/?#"))
    return location;
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return location;
  if (location.starts_with("//")) return url.substr(0, scheme + 1) + location;
  const size_t host_end = std::min(url.find_first_of("/?#", scheme + 3), url.size());
  if (location.starts_with('/')) return url.substr(0, host_end) + location;
  const size_t path_end = std::min(url.find_first_of("?#", host_end), url.size());
  const size_t slash = url.rfind('/', path_end - 1);
  return url.substr(0, slash < host_end ? host_end : slash) + "/" + location;
}

std::string quote_url(const std::string& text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    const bool plain = is_letter_or_digit(c) || std::string_view("-._~").find(c) != std::string_view::npos;
    out +=
        plain || (keep_slashes && c == '/') ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::optional<double> retry_after(const HttpResponse& response) {
  const auto number = [](std::string_view text) -> std::optional<double> {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || (end != text.data() + text.size() && *end != ';' && *end != ' ')) return {};
    return value;
  };
  if (const auto seconds = number(response.header("retry-after"))) return seconds;
  const std::string limit = response.header("ratelimit");
  const size_t at = limit.find("t=");
  return limit.find("r=0") != std::string::npos && at != std::string::npos
             ? number(std::string_view(limit).substr(at + 2))
             : std::nullopt;
}

}  // namespace gabbro::hub
