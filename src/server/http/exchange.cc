#include <boost/asio/post.hpp>

#include <algorithm>

#include "src/server/http/connection.h"

namespace gabbro::server {

// Runs `call` with the connection, on its strand.
template <class Call>
void ConnectionExchange::pass(Call call) {
  asio::post(connection_->executor(), [self = shared_from_this(), call = std::move(call)]() mutable {
    if (!self->gone_) call(*self->connection_);
  });
}

void ConnectionExchange::respond(Response response) {
  pass([response = std::move(response)](Connection& connection) mutable { connection.respond(std::move(response)); });
}

void ConnectionExchange::begin(Response head) {
  pass([head = std::move(head)](Connection& connection) mutable { connection.begin(std::move(head)); });
}

void ConnectionExchange::write(std::string data) {
  if (data.empty()) return;
  unsent_ += data.size();
  pass([data = std::move(data)](Connection& connection) mutable { connection.write(std::move(data)); });
}

void ConnectionExchange::end() {
  pass([](Connection& connection) { connection.end(); });
}

void ConnectionExchange::abort() {
  pass([](Connection& connection) { connection.close_now(); });
}

void ConnectionExchange::on_sent(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  if (!over_) sent_callback_ = std::move(callback);
}

void ConnectionExchange::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (over_ && !gone_) return;
    if (!gone_) {
      gone_callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

void ConnectionExchange::sent(size_t bytes, bool all) {
  unsent_ -= std::min<size_t>(bytes, unsent_);
  if (!all) return;
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    callback = sent_callback_;
  }
  if (callback) callback();
}

void ConnectionExchange::leave() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    callback = std::move(gone_callback_);
  }
  release();
  if (callback) callback();
}

void ConnectionExchange::release() {
  std::function<void()> sent_callback, gone_callback;  // destroyed outside of the lock
  const std::lock_guard lock(mutex_);
  over_ = true;
  sent_callback.swap(sent_callback_);
  gone_callback.swap(gone_callback_);
}

}  // namespace gabbro::server
