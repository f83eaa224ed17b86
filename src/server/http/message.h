// Requests and answers of HTTP as plain data, and the exchange of one request. Knows nothing of sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gabbro::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "POST"
  std::string path;    // without the query; percent escapes are decoded
  std::string query;   // after "?", as sent
  Headers headers;     // names in lower case
  std::string body;
  std::string peer;                       // address of the client, without its port
  std::string id;                         // of the request: the client's x-request-id, or a new one
  std::string key_name;                   // of the API key; empty: none was needed
  std::vector<std::string> key_models{};  // that the key may use; empty: all
  bool takes_place = false;               // it counts as a request of its key until it is over

  // The first value of a header, by its name in lower case; null: it is missing.
  const std::string* header(std::string_view name) const;
  size_t count(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string body{};
  std::string content_type = "application/json";
  Headers headers{};
  bool closes = false;  // the connection, after it
  int delay_ms = 0;     // before it is sent
};

// "Not Found"; "Unknown" for a status that the server does not use.
const char* reason_of(int status);

// One request and its answer: respond(), or begin(), write() ... and end(). All functions may be called by any thread.
// After the client has left, they do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;

  virtual void respond(Response response) = 0;
  // The head of a streamed answer; its body is ignored.
  virtual void begin(Response head) = 0;
  virtual void write(std::string data) = 0;
  virtual void end() = 0;
  // Closes the connection in the middle of an answer, so that the client sees that it is not whole.
  virtual void abort() = 0;

  virtual size_t unsent() const = 0;  // bytes that the client has not taken yet
  virtual bool is_gone() const = 0;   // the client has left
  // Called by a thread of the server each time when all of write() was sent. It must not block.
  virtual void on_sent(std::function<void()> callback) = 0;
  // Called once when the client leaves before the end of the answer; at once if it has left.
  virtual void on_gone(std::function<void()> callback) = 0;
};

}  // namespace gabbro::server
