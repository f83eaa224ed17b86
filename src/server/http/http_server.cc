#include "src/server/http/http_server.h"

#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "src/base/error.h"
#include "src/server/http/connection.h"
#include "src/server/http/listener.h"

namespace gabbro::server {
namespace {

using asio::ip::tcp;
using error_code = boost::system::error_code;
constexpr std::chrono::milliseconds kAfterAcceptError{100};
constexpr std::chrono::milliseconds kClosing{2'000};  // in which all connections are closed

Error error_of_bind(const std::string& host, int port, const error_code& error) {
  const std::string where = fmt::format("{}:{}", host.find(':') != host.npos ? "[" + host + "]" : host, port);
  if (error == asio::error::address_in_use) {
    const std::string holder = holder_of_port(port);
    return Error(ErrorCode::kBadInput, fmt::format("port {} is taken{}", port, holder.empty() ? "" : " by " + holder),
                 fmt::format("--port {} takes another one", port + 1));
  }
  return bad_input("cannot listen on {}: {}", where, error.message());
}

}  // namespace

struct HttpServer::State : std::enable_shared_from_this<HttpServer::State> {
  State(HttpOptions given, HttpHandlers handlers)
      : options(std::move(given)), shared(std::make_shared<ConnectionShared>(options, std::move(handlers))) {}

  void bind();
  void add(Acceptor acceptor);
  void accept(Acceptor& acceptor);
  void take(Socket socket);
  void repeat(const std::shared_ptr<asio::steady_timer>& timer, std::chrono::milliseconds period,
              const std::shared_ptr<std::function<void()>>& task);
  void forget(Connection* connection, const std::string& peer);
  std::vector<std::shared_ptr<Connection>> open_connections();

  HttpOptions options;
  std::shared_ptr<ConnectionShared> shared;
  asio::io_context context;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work{asio::make_work_guard(context)};
  std::list<Acceptor> acceptors;
  std::vector<std::string> own_paths;  // of sockets, which are removed at the end
  std::vector<std::string> addresses;
  int port = 0;
  std::vector<std::shared_ptr<asio::steady_timer>> timers;
  std::vector<std::thread> threads;
  std::atomic<bool> stopping = false;
  std::mutex mutex;
  std::map<Connection*, std::weak_ptr<Connection>> connections;
  std::map<std::string, size_t> by_address;
};

void HttpServer::State::add(Acceptor acceptor) {
  const Endpoint endpoint = acceptor.local_endpoint();
  addresses.push_back(text_of(endpoint, options.tls != nullptr));
  if (const auto number = port_of(endpoint)) port = *number;
  acceptors.push_back(std::move(acceptor));
}

void HttpServer::State::bind() {
  port = options.port;
  if (!options.descriptors.empty()) {
    for (const int descriptor : options.descriptors) add(acceptor_of(context, descriptor));
    return;
  }
  for (const std::string& path : options.paths) {
    add(listen_on_path(context, path));
    own_paths.push_back(path);
  }
  for (const std::string& host : options.hosts) {
    error_code error;
    const auto address = asio::ip::make_address(host, error);
    if (error) throw bad_input("{} is not an IP address to listen on", host);
    const tcp::endpoint endpoint(address, static_cast<unsigned short>(port));
    tcp::acceptor acceptor(context);
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error && address.is_v6()) acceptor.set_option(asio::ip::v6_only(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    // A machine without IPv6 serves IPv4.
    if (error && host == "::1" && error != asio::error::address_in_use && !acceptors.empty()) continue;
    if (error) throw error_of_bind(host, port, error);
    add(Acceptor(std::move(acceptor)));
  }
}

void HttpServer::State::accept(Acceptor& acceptor) {
  acceptor.async_accept(asio::make_strand(context),
                        [self = shared_from_this(), &acceptor](error_code error, Socket socket) {
                          if (error == asio::error::operation_aborted || self->stopping) return;
                          if (!error) {
                            self->take(std::move(socket));
                            return self->accept(acceptor);
                          }
                          // Mostly too many open files: others have to be closed first.
                          const auto timer = std::make_shared<asio::steady_timer>(self->context, kAfterAcceptError);
                          timer->async_wait([self, timer, &acceptor](error_code) {
                            if (!self->stopping && acceptor.is_open()) self->accept(acceptor);
                          });
                        });
}

void HttpServer::State::take(Socket socket) {
  error_code error;
  const Endpoint remote = socket.remote_endpoint(error);
  if (error) return;
  const std::string peer = peer_of(remote);
  const bool is_path = peer == kUnixPeer;
  bool is_too_many = false;
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex);
    is_too_many = connections.size() >= options.limits.connections ||
                  (!is_path && by_address[peer] >= options.limits.connections_per_address);
    const auto pointer = std::make_shared<Connection*>(nullptr);
    connection = std::make_shared<Connection>(std::move(socket), peer, is_path ? nullptr : options.tls, shared,
                                              [self = std::weak_ptr(shared_from_this()), pointer, peer] {
                                                if (const auto state = self.lock()) state->forget(*pointer, peer);
                                              });
    *pointer = connection.get();
    ++by_address[peer];
    connections.emplace(connection.get(), connection);
  }
  if (is_too_many) {
    connection->refuse_at_once(503, "too many connections");
  } else {
    connection->start();
  }
}

void HttpServer::State::forget(Connection* connection, const std::string& peer) {
  const std::lock_guard lock(mutex);
  connections.erase(connection);
  const auto count = by_address.find(peer);
  if (count != by_address.end() && --count->second == 0) by_address.erase(count);
}

std::vector<std::shared_ptr<Connection>> HttpServer::State::open_connections() {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<Connection>> open;
  for (const auto& [pointer, weak] : connections) {
    if (auto connection = weak.lock()) open.push_back(std::move(connection));
  }
  return open;
}

void HttpServer::State::repeat(const std::shared_ptr<asio::steady_timer>& timer, std::chrono::milliseconds period,
                               const std::shared_ptr<std::function<void()>>& task) {
  timer->expires_after(period);
  timer->async_wait([self = shared_from_this(), timer, period, task](error_code error) {
    if (error || self->stopping) return;
    self->shared->post([self, timer, period, task] {
      (*task)();
      if (!self->stopping) self->repeat(timer, period, task);
    });
  });
}

HttpServer::HttpServer(HttpOptions options, HttpHandlers handlers)
    : state_(std::make_shared<State>(std::move(options), std::move(handlers))) {
  state_->bind();
}

HttpServer::~HttpServer() { stop(); }

std::vector<std::string> HttpServer::addresses() const { return state_->addresses; }
int HttpServer::port() const { return state_->port; }

void HttpServer::start() {
  for (Acceptor& acceptor : state_->acceptors) state_->accept(acceptor);
  for (int i = 0; i < state_->options.io_threads; ++i)
    state_->threads.emplace_back([state = state_.get()] { state->context.run(); });
}

void HttpServer::stop_accepting() {
  state_->shared->draining = true;
  asio::post(state_->context, [state = state_] {
    error_code ignored;
    for (Acceptor& acceptor : state->acceptors) acceptor.close(ignored);
  });
  for (const std::string& path : std::exchange(state_->own_paths, {})) ::unlink(path.c_str());
  for (const auto& connection : state_->open_connections()) connection->close_if_idle();
}

void HttpServer::stop() {
  if (state_->stopping.exchange(true)) return;
  stop_accepting();
  for (const auto& connection : state_->open_connections()) connection->close_now();
  const auto end = Connection::Clock::now() + kClosing;
  while (connections() > 0 && Connection::Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  state_->shared->join();
  state_->work.reset();
  state_->context.stop();
  for (std::thread& thread : state_->threads) thread.join();
  state_->threads.clear();
  // Queued handlers hold the connections and this state.
  for (const auto& timer : state_->timers) timer->cancel();
  state_->context.restart();
  state_->context.poll();
}

void HttpServer::set_tls(std::shared_ptr<const TlsContext> tls) {
  const std::lock_guard lock(state_->mutex);
  state_->options.tls = std::move(tls);
}

void HttpServer::post(std::function<void()> task) { state_->shared->post(std::move(task)); }

void HttpServer::every(std::chrono::milliseconds period, std::function<void()> task) {
  state_->timers.push_back(std::make_shared<asio::steady_timer>(state_->context));
  state_->repeat(state_->timers.back(), period, std::make_shared<std::function<void()>>(std::move(task)));
}

size_t HttpServer::connections() const {
  const std::lock_guard lock(state_->mutex);
  return state_->connections.size();
}

}  // namespace gabbro::server
