// One connection of a client. Private to src/server/http: the only header that includes Boost.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <mutex>
#include <optional>

#include "src/server/http/http_server.h"
#include "src/server/http/tls.h"

namespace gabbro::server {

namespace asio = boost::asio;
namespace beast = boost::beast;

using Socket = asio::generic::stream_protocol::socket;  // of TCP or of a path

class ConnectionExchange;

// The state that all connections of a server share.
struct ConnectionShared {
  HttpLimits limits;
  HttpHandlers handlers;
  asio::thread_pool pool;
  std::atomic<bool> draining = false;

  ConnectionShared(const HttpOptions& options, HttpHandlers given)
      : limits(options.limits), handlers(std::move(given)), pool(static_cast<size_t>(options.pool_threads)) {}

  // Runs `task` on the pool; after join() it is dropped, so that no task keeps what it holds for ever.
  void post(std::function<void()> task) {
    const std::lock_guard lock(mutex);
    if (!joined) asio::post(pool, std::move(task));
  }
  void join() {
    {
      const std::lock_guard lock(mutex);
      joined = true;
    }
    pool.join();
  }

  std::mutex mutex;
  bool joined = false;
};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  // `tls`: null for plain text. `closed` is called once.
  Connection(Socket socket, std::string peer, std::shared_ptr<const TlsContext> tls,
             std::shared_ptr<ConnectionShared> shared, std::function<void()> closed);
  ~Connection();

  void start();
  void refuse_at_once(int status, const std::string& message);  // in place of start()
  void close_if_idle();
  void close_now();

  // Called by its exchange, on the strand.
  void respond(Response response);
  void begin(Response head);
  void write(std::string data);
  void end();
  asio::any_io_executor executor() { return socket_.get_executor(); }
  ConnectionShared& shared() { return *shared_; }

 private:
  enum class Phase { kIdle, kHeader, kBody, kHandled, kLingering, kClosed };

  void read();
  void received(size_t bytes);
  bool decrypt(std::string_view bytes);  // to input_; false: it is not TLS
  void process();
  void on_header();
  void dispatch();
  void refuse(int status, const std::string& message);
  void send_response(Response response);
  std::string head_of(const Response& response, bool streamed);
  void push(std::string data);
  void push_raw(std::string data);
  void say_end();  // of TLS, after the last byte of the last answer
  void write_some();
  void on_written();
  void answered();
  void tick();
  void on_tick();
  void enter(Phase phase);
  void close();

  Socket socket_;
  std::optional<TlsSession> tls_;
  asio::steady_timer timer_;
  std::string peer_;
  std::shared_ptr<ConnectionShared> shared_;
  std::function<void()> closed_;

  Phase phase_ = Phase::kIdle;
  Clock::time_point phase_start_ = Clock::now();
  bool reading_ = false;
  // A read is mostly pending, and `input_` changes meanwhile: bytes come here first.
  std::array<char, 16 << 10> received_;
  beast::flat_buffer input_;
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  size_t window_bytes_ = 0;  // of a body, since `window_start_`
  Clock::time_point window_start_{};

  HttpRequest request_;
  Clock::time_point request_start_{};
  std::shared_ptr<ConnectionExchange> exchange_;
  int status_ = 0;
  bool keeps_alive_ = false, chunked_ = false, is_head_ = false, ending_ = false, streaming_ = false;
  std::string outgoing_, sending_;
  size_t sent_ = 0;  // of sending_
  Clock::time_point progress_{};
};

class ConnectionExchange final : public Exchange, public std::enable_shared_from_this<ConnectionExchange> {
 public:
  ConnectionExchange(std::shared_ptr<Connection> connection, HttpRequest request)
      : connection_(std::move(connection)), request_(std::move(request)) {}

  const HttpRequest& request() const override { return request_; }
  void respond(Response response) override;
  void begin(Response head) override;
  void write(std::string data) override;
  void end() override;
  void abort() override;
  size_t unsent() const override { return unsent_; }
  bool is_gone() const override { return gone_; }
  void on_sent(std::function<void()> callback) override;
  void on_gone(std::function<void()> callback) override;

  // Called by its connection.
  void sent(size_t bytes, bool all);
  void leave();    // the client has left
  void release();  // the answer is over: drops the callbacks

 private:
  template <class Call>
  void pass(Call call);

  const std::shared_ptr<Connection> connection_;
  const HttpRequest request_;
  std::atomic<size_t> unsent_ = 0;
  std::atomic<bool> gone_ = false;
  std::mutex mutex_;
  std::function<void()> sent_callback_, gone_callback_;
  bool over_ = false;
};

}  // namespace gabbro::server
