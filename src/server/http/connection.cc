#include "src/server/http/connection.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <ctime>
#include <utility>

#include "src/hub/text.h"
#include "src/server/http/url.h"

namespace gabbro::server {
namespace {

namespace http = beast::http;
using error_code = boost::system::error_code;

// Bytes of later requests that are read while one is handled; beyond them the client's leaving is not noticed.
constexpr size_t kMostPipelined = 64 << 10;
constexpr std::chrono::milliseconds kTick{200};
constexpr std::chrono::milliseconds kLinger{1500};

std::string date_now() { return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(std::time(nullptr))); }

int status_of(const error_code& error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == http::error::bad_version) return 505;
  return 400;
}

}  // namespace

Connection::Connection(Socket socket, std::string peer, std::shared_ptr<const TlsContext> tls,
                       std::shared_ptr<ConnectionShared> shared, std::function<void()> closed)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      peer_(std::move(peer)),
      shared_(std::move(shared)),
      closed_(std::move(closed)) {
  if (tls != nullptr) tls_.emplace(std::move(tls));
}

Connection::~Connection() = default;

void Connection::start() {
  asio::post(executor(), [self = shared_from_this()] {
    error_code ignored;
    self->socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    self->enter(Phase::kHeader);  // the first request comes at once
    self->read();
    self->tick();
  });
}

void Connection::refuse_at_once(int status, const std::string& message) {
  asio::post(executor(), [self = shared_from_this(), status, message] {
    self->tick();
    self->refuse(status, message);
  });
}

void Connection::enter(Phase phase) {
  phase_ = phase;
  phase_start_ = Clock::now();
}

// --- Reading

void Connection::read() {
  if (reading_ || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kHandled && input_.size() >= kMostPipelined) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(received_), [self = shared_from_this()](error_code error, size_t bytes) {
    self->reading_ = false;
    if (error) return self->close();
    self->received(bytes);
  });
}

void Connection::received(size_t bytes) {
  if (phase_ == Phase::kLingering) {
    input_.consume(input_.size());
    return read();
  }
  window_bytes_ += bytes;
  const std::string_view came(received_.data(), bytes);
  if (tls_) {
    if (!decrypt(came)) return close();
  } else {
    input_.commit(asio::buffer_copy(input_.prepare(bytes), asio::buffer(came.data(), came.size())));
  }
  process();
  read();
}

bool Connection::decrypt(std::string_view bytes) {
  std::string plain;
  const bool goes_on = tls_->receive(bytes, plain);
  push_raw(tls_->take_outgoing());
  input_.commit(asio::buffer_copy(input_.prepare(plain.size()), asio::buffer(plain)));
  return goes_on || !plain.empty();
}

// Gives the parser what came, while no request is handled.
void Connection::process() {
  if (phase_ == Phase::kIdle && input_.size() > 0) enter(Phase::kHeader);
  while ((phase_ == Phase::kHeader || phase_ == Phase::kBody) && input_.size() > 0) {
    if (!parser_) {
      parser_.emplace();
      parser_->header_limit(static_cast<uint32_t>(shared_->limits.header_bytes));
      parser_->body_limit(shared_->limits.body_bytes);
    }
    error_code error;
    const size_t used = parser_->put(input_.data(), error);
    input_.consume(used);
    if (error == http::error::need_more) {
      if (phase_ == Phase::kHeader && input_.size() > shared_->limits.header_bytes)
        refuse(431, "the header is too large");
      return;
    }
    if (error) {
      const int status = status_of(error);
      return refuse(status, status == 413 ? fmt::format("the body is larger than {} bytes", shared_->limits.body_bytes)
                            : status == 431
                                ? fmt::format("the header is larger than {} bytes", shared_->limits.header_bytes)
                                : fmt::format("malformed HTTP: {}", error.message()));
    }
    if (phase_ == Phase::kHeader && parser_->is_header_done()) on_header();
    if (phase_ == Phase::kBody && parser_->is_done()) dispatch();
  }
}

void Connection::on_header() {
  const auto& message = parser_->get();
  request_ = {};
  request_.peer = peer_;
  request_.method = std::string(message.method_string());
  split_target(std::string_view(message.target().data(), message.target().size()), request_.path, request_.query);
  for (const auto& field : message) {
    request_.headers.emplace_back(hub::lower_case({field.name_string().data(), field.name_string().size()}),
                                  std::string(field.value()));
  }
  const std::string* const given = request_.header("x-request-id");
  request_.id = given != nullptr && is_request_id(*given) ? *given : random_id("req_");
  request_start_ = Clock::now();
  keeps_alive_ = message.keep_alive();
  chunked_ = message.version() >= 11;
  is_head_ = request_.method == "HEAD";
  enter(Phase::kBody);
  window_start_ = Clock::now();
  window_bytes_ = 0;
  if (request_.headers.size() > shared_->limits.header_count)
    return refuse(431, fmt::format("more than {} header fields", shared_->limits.header_count));
  if (message.version() >= 11 && request_.count("host") != 1) return refuse(400, "a request has one Host header");
  if (request_.count("host") > 1) return refuse(400, "a request has one Host header");
  if (request_.header("transfer-encoding") != nullptr && request_.header("content-length") != nullptr)
    return refuse(400, "Transfer-Encoding and Content-Length exclude each other");
  const auto length = parser_->content_length();
  if (length && *length > shared_->limits.body_bytes)
    return refuse(413, fmt::format("the body is larger than {} bytes", shared_->limits.body_bytes));
  if (auto refusal = shared_->handlers.check(request_)) {
    refusal->closes = refusal->closes || !parser_->is_done();
    enter(Phase::kHandled);
    return send_response(std::move(*refusal));
  }
  const std::string* const expected = request_.header("expect");
  if (expected == nullptr || parser_->is_done()) return;
  if (hub::lower_case(*expected) != "100-continue")
    return refuse(417, "the server knows no expectation but 100-continue");
  push("HTTP/1.1 100 Continue\r\n\r\n");
}

void Connection::dispatch() {
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  enter(Phase::kHandled);
  exchange_ = std::make_shared<ConnectionExchange>(shared_from_this(), request_);
  shared_->post([exchange = exchange_, shared = shared_] { shared->handlers.handle(exchange); });
}

void Connection::refuse(int status, const std::string& message) {
  if (request_.id.empty()) {  // its head was not understood
    request_.id = random_id("req_");
    request_start_ = phase_start_;
  }
  enter(Phase::kHandled);
  Response response = shared_->handlers.refuse(request_, status, message);
  response.closes = true;
  send_response(std::move(response));
}

// --- Writing

std::string Connection::head_of(const Response& response, bool streamed) {
  if (response.closes || shared_->draining || (streamed && !chunked_)) keeps_alive_ = false;
  status_ = response.status;
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\nx-request-id: {}\r\nrequest-id: {}\r\n",
                                 response.status, reason_of(response.status), date_now(), request_.id, request_.id);
  if (!response.content_type.empty()) head += fmt::format("Content-Type: {}\r\n", response.content_type);
  if (shared_->handlers.headers) {
    for (const auto& [name, value] : shared_->handlers.headers(request_))
      head += fmt::format("{}: {}\r\n", name, value);
  }
  for (const auto& [name, value] : response.headers) head += fmt::format("{}: {}\r\n", name, value);
  if (!streamed) {
    if (response.status != 204 && response.status != 304)
      head += fmt::format("Content-Length: {}\r\n", response.body.size());
    head += fmt::format("openai-processing-ms: {}\r\n",
                        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - request_start_).count());
  } else if (chunked_) {
    head += "Transfer-Encoding: chunked\r\n";
  }
  return head + (keeps_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

void Connection::send_response(Response response) {
  if (response.delay_ms > 0) {
    const auto timer = std::make_shared<asio::steady_timer>(executor(), std::chrono::milliseconds(response.delay_ms));
    response.delay_ms = 0;
    timer->async_wait([self = shared_from_this(), timer, response = std::move(response)](error_code) mutable {
      if (self->phase_ == Phase::kHandled) self->send_response(std::move(response));
    });
    return;
  }
  std::string data = head_of(response, false);
  if (!is_head_) data += response.body;
  ending_ = true;
  push(std::move(data));
  say_end();
}

void Connection::respond(Response response) {
  if (phase_ == Phase::kHandled && !ending_ && !streaming_) send_response(std::move(response));
}

void Connection::begin(Response head) {
  if (phase_ != Phase::kHandled || ending_ || streaming_) return;
  streaming_ = true;
  push(head_of(head, true));
}

void Connection::write(std::string data) {
  if (phase_ != Phase::kHandled || !streaming_ || ending_) return;
  if (is_head_) return exchange_->sent(data.size(), false);
  push(chunked_ ? fmt::format("{:x}\r\n", data.size()) + data + "\r\n" : std::move(data));
}

void Connection::end() {
  if (phase_ != Phase::kHandled || !streaming_ || ending_) return;
  ending_ = true;
  if (chunked_ && !is_head_) push("0\r\n\r\n");
  say_end();
  if (outgoing_.empty() && sending_.empty()) answered();
}

void Connection::push(std::string data) {
  if (!tls_) return push_raw(std::move(data));
  tls_->send(data);
  push_raw(tls_->take_outgoing());
}

void Connection::say_end() {
  if (!tls_ || keeps_alive_) return;
  tls_->close();
  push_raw(tls_->take_outgoing());
}

void Connection::push_raw(std::string data) {
  if (data.empty()) return;
  outgoing_ += data;
  if (sending_.empty()) write_some();
}

void Connection::write_some() {
  if (sent_ == sending_.size()) {
    sending_ = std::exchange(outgoing_, {});
    sent_ = 0;
    progress_ = Clock::now();
  }
  if (sending_.empty()) return on_written();
  socket_.async_write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
                           [self = shared_from_this()](error_code error, size_t bytes) {
                             if (error) return self->close();
                             self->sent_ += bytes;
                             self->progress_ = Clock::now();
                             if (self->exchange_ && self->streaming_) self->exchange_->sent(bytes, false);
                             self->write_some();
                           });
}

// Nothing is left to be written.
void Connection::on_written() {
  if (phase_ != Phase::kHandled) return;
  if (ending_) return answered();
  if (exchange_ && streaming_) exchange_->sent(SIZE_MAX, true);
}

void Connection::answered() {
  if (shared_->handlers.done)
    shared_->handlers.done(request_, status_, std::chrono::duration<double>(Clock::now() - request_start_).count());
  if (exchange_) exchange_->release();
  exchange_.reset();
  parser_.reset();
  ending_ = streaming_ = is_head_ = false;
  request_ = {};
  if (!keeps_alive_) {
    // A client that still sends gets a reset in place of the answer unless its bytes are read for a while.
    error_code ignored;
    socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    enter(Phase::kLingering);
    input_.consume(input_.size());
    return read();
  }
  enter(Phase::kIdle);
  process();
  read();
}

// --- Time and ends

void Connection::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->on_tick();
  });
}

void Connection::on_tick() {
  if (phase_ == Phase::kClosed) return;
  const HttpLimits& limits = shared_->limits;
  const auto now = Clock::now();
  const auto in_phase = now - phase_start_;
  const bool is_writing = !sending_.empty();
  if (is_writing && now - progress_ > limits.write_time) return close();
  if (phase_ == Phase::kIdle && (in_phase > limits.idle_time || shared_->draining)) return close();
  if (phase_ == Phase::kLingering && in_phase > kLinger) return close();
  if (phase_ == Phase::kHeader && in_phase > limits.header_time) {
    if (input_.size() == 0 && !parser_) return close();
    refuse(408, "the header came too slowly");
  } else if (phase_ == Phase::kBody) {
    if (in_phase > limits.body_time) {
      refuse(408, "the body came too slowly");
    } else if (now - window_start_ > limits.rate_window) {
      if (window_bytes_ < limits.window_bytes) {
        refuse(408, "the body came too slowly");
      } else {
        window_bytes_ = 0;
        window_start_ = now;
      }
    }
  }
  tick();
}

void Connection::close_if_idle() {
  asio::post(executor(), [self = shared_from_this()] {
    if (self->phase_ == Phase::kIdle) self->close();
  });
}

void Connection::close_now() {
  asio::post(executor(), [self = shared_from_this()] { self->close(); });
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  const bool was_accepted = phase_ == Phase::kHandled || phase_ == Phase::kBody;
  phase_ = Phase::kClosed;
  error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  if (exchange_) exchange_->leave();
  exchange_.reset();
  if (was_accepted && shared_->handlers.done)
    shared_->handlers.done(request_, 499, std::chrono::duration<double>(Clock::now() - request_start_).count());
  if (closed_) std::exchange(closed_, nullptr)();
}

}  // namespace gabbro::server
