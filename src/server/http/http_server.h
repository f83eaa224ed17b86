// The HTTP/1.1 server: sockets, limits and timeouts. Handlers interpret the requests.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/server/http/message.h"

namespace gabbro::server {

class TlsContext;  // tls.h

// Bounds on clients (docs/guides/server.md has the table).
struct HttpLimits {
  size_t header_bytes = 16 << 10;
  size_t header_count = 100;
  size_t body_bytes = 32 << 20;
  size_t connections = 1024;
  size_t connections_per_address = 64;
  std::chrono::milliseconds header_time{10'000};
  std::chrono::milliseconds body_time{30'000};
  std::chrono::milliseconds rate_window{5'000};  // a body must bring `window_bytes` in each
  size_t window_bytes = 5 << 10;
  std::chrono::milliseconds idle_time{75'000};   // between two requests
  std::chrono::milliseconds write_time{30'000};  // a client must read part of an answer within it
};

struct HttpOptions {
  std::vector<std::string> hosts = {"127.0.0.1", "::1"};  // addresses; of the default ones ::1 may be missing
  int port = 11434;                                       // 0: any free one
  std::vector<std::string> paths{};                       // of Unix sockets, besides the hosts
  std::vector<int> descriptors{};           // of sockets that listen already (systemd); they replace hosts and paths
  std::shared_ptr<const TlsContext> tls{};  // for hosts and descriptors; null: plain text
  int io_threads = 2;
  int pool_threads = 4;
  HttpLimits limits{};
};

struct HttpHandlers {
  // Called after the headers and before the body is read: a response refuses the request. Must not block.
  std::function<std::optional<Response>(HttpRequest&)> check;
  // Called by a thread of the pool for each request.
  std::function<void(std::shared_ptr<Exchange>)> handle;
  // The answer to a request that violates HTTP or a limit. `request` holds the parsed part of it.
  std::function<Response(const HttpRequest& request, int status, const std::string& message)> refuse;
  // Further headers of each answer to `request`.
  std::function<Headers(const HttpRequest& request)> headers;
  // Called after the last byte of an answer, or when the client has disconnected (status 499).
  std::function<void(const HttpRequest& request, int status, double seconds)> done;
};

class HttpServer {
 public:
  // Binds the addresses. Throws bad_input for an address that is invalid or in use, with the program that holds it.
  HttpServer(HttpOptions options, HttpHandlers handlers);
  ~HttpServer();  // stop()
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::vector<std::string> addresses() const;  // "http://127.0.0.1:11434", "https://[::1]:11434", "unix:/run/gabbro"
  int port() const;

  void start();
  // Replaces the certificate for new connections.
  void set_tls(std::shared_ptr<const TlsContext> tls);
  // Accepts no further connections and closes idle ones.
  void stop_accepting();
  // Closes all connections and ends the threads. Waits for running handlers.
  void stop();

  // Runs `task` on a thread of the pool.
  void post(std::function<void()> task);
  // Runs `task` on the pool every `period`, until stop(). Called before start().
  void every(std::chrono::milliseconds period, std::function<void()> task);
  size_t connections() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// The descriptors that systemd passes to this process (LISTEN_PID, LISTEN_FDS); empty: none. Throws bad_input for
// invalid values.
std::vector<int> inherited_sockets();
// Whether only programs of this machine reach the socket.
bool is_loopback_socket(int descriptor);

// The program that listens on a TCP port, as "ollama (process 123)"; empty if it is unknown.
std::string holder_of_port(int port);

}  // namespace gabbro::server
