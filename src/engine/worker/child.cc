#include "src/engine/worker/child.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <deque>
#include <map>
#include <new>
#include <thread>
#include <utility>

#include "src/backend/device_reports.h"
#include "src/base/error.h"
#include "src/engine/model_service.h"
#include "src/engine/worker/messages.h"
#include "src/engine/worker/process.h"
#include "src/engine/worker/step_watch.h"
#include "src/text/grammar/matcher.h"
#include "src/text/tokenizer.h"

namespace gabbro::worker {
namespace {

constexpr std::chrono::seconds kLastWork{2};  // to close an engine

// Sends from one thread, receives from another.
class Connection {
 public:
  void send(const Message& message) {
    const std::string bytes = encode(message);
    const StepWatch::Pause pause(watch);  // the program may be slow
    const std::lock_guard lock(mutex_);
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(kSocket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) ::_exit(0);  // the program is gone
      at += static_cast<size_t>(sent);
    }
  }

  // Empty if the program is gone. Throws for a damaged message.
  std::optional<Message> receive() {
    std::array<char, 65536> buffer;
    while (true) {
      if (std::optional<Message> message = reader_.next()) return message;
      const ssize_t got = ::recv(kSocket, buffer.data(), buffer.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return std::nullopt;
      reader_.feed({buffer.data(), static_cast<size_t>(got)});
    }
  }

  // Watches steps: the thread that computes them also sends.
  StepWatch watch{[this](std::chrono::milliseconds limit) {
    send(Lost{
        fmt::format("a step took longer than {:.0f} s: the device hangs", static_cast<double>(limit.count()) / 1e3)});
    ::_exit(kLostDevice);
  }};

 private:
  std::mutex mutex_;
  MessageReader reader_;
};

// Requests from the program, by its tickets, on the loop of the engine.
class Server {
 public:
  // Runs on the thread that owns the engine.
  int run();

 private:
  class Events;

  void receive_all();
  void load(EngineSpec spec);
  std::optional<Message> take(bool waits);
  bool has_ended();
  void prepare(const OutputFormat& format);
  void add(Add message);
  bool cancel(Ticket ticket);
  void pause(const Pause& message);
  void forget(Ticket ticket);
  bool step();

  Connection connection_;
  std::shared_ptr<LocalModel> model_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable arrived_;
  std::deque<Message> inbox_;
  std::map<Ticket, Ticket> own_;  // the loop's ticket for each of the program's
  bool ends_ = false;
};

class Server::Events final : public Channel {
 public:
  Events(Server& server, Ticket ticket) : server_(server), ticket_(ticket) {}
  void started() override { server_.connection_.send(Started{ticket_}); }
  void text(std::string_view piece) override {
    server_.connection_.send(Text{ticket_, std::string(piece), std::exchange(scores_, {})});
  }
  void scores(std::span<const TokenScore> scores) override {
    scores_.insert(scores_.end(), scores.begin(), scores.end());
  }
  void finished(GenerateResult result) override {
    server_.forget(ticket_);
    server_.connection_.send(Finished{ticket_, std::move(result), server_.model_->streaming_work()});
  }
  void failed(const Error& error) override {
    server_.forget(ticket_);
    server_.connection_.send(Failed{ticket_, fault_of(error)});
  }

 private:
  Server& server_;
  const Ticket ticket_;
  std::vector<TokenScore> scores_;  // of the next text
};

// The receiving thread: it notices even during a step that a request is canceled, or that the program is gone.
void Server::receive_all() {
  std::optional<Message> message;
  try {
    while ((message = connection_.receive()) && !std::holds_alternative<Shutdown>(*message)) {
      if (const auto* const canceled = std::get_if<Cancel>(&*message); canceled && cancel(canceled->ticket)) continue;
      if (const auto* const added = std::get_if<Add>(&*message)) prepare(added->request.options.format);
      const std::lock_guard lock(mutex_);
      inbox_.push_back(std::move(*message));
      arrived_.notify_one();
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "gabbro: worker: %s\n", error.what());
    ::_exit(kBadMessage);
  }
  if (!message) ::_exit(0);  // the program is gone
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    arrived_.notify_one();
    for (const auto& [ticket, own] : own_) model_->cancel(own);  // own_ is empty before there is a model
  }
  std::this_thread::sleep_for(kLastWork);
  ::_exit(0);  // the engine hangs, or loads a model in vain
}

// Compiles a grammar while the engine computes: its requests find it compiled. add() reports errors.
void Server::prepare(const OutputFormat& format) {
  std::shared_ptr<LocalModel> model;
  {
    const std::lock_guard lock(mutex_);
    model = model_;
  }
  if (format.is_text() || model == nullptr) return;
  try {
    static_cast<void>(model->tokenizer().grammars().matcher(format));
  } catch (const std::exception&) {
  }
}

// Returns true if the loop knows it. A request that is not added yet is canceled in its turn.
bool Server::cancel(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(ticket);
  if (found == own_.end()) return false;
  model_->cancel(found->second);
  return true;
}

void Server::pause(const Pause& message) {
  const std::lock_guard lock(mutex_);
  if (const auto found = own_.find(message.ticket); found != own_.end()) model_->pause(found->second, message.paused);
}

void Server::forget(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  own_.erase(ticket);
}

void Server::add(Add message) {
  const auto events = std::make_shared<Events>(*this, message.ticket);
  try {
    // With the lock, a message that cancels it comes before the loop knows it, or finds it here.
    const std::lock_guard lock(mutex_);
    own_[message.ticket] = model_->add(std::move(message.request), events);
  } catch (const Error& error) {
    events->failed(error);
  }
}

void Server::load(EngineSpec spec) {
  spec.options.progress = [&](double fraction) { connection_.send(Progress{fraction}); };
  std::shared_ptr<LocalModel> model = LocalModel::load(spec);
  connection_.send(Loaded{{model->facts(), model->device_memory()}});
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
}

// The next message. Empty if the program ends, or if the inbox is empty and `waits` is false because the engine has
// work.
std::optional<Message> Server::take(bool waits) {
  std::unique_lock lock(mutex_);
  if (waits) arrived_.wait(lock, [&] { return ends_ || !inbox_.empty(); });
  if (ends_ || inbox_.empty()) return std::nullopt;
  Message message = std::move(inbox_.front());
  inbox_.pop_front();
  return message;
}

bool Server::has_ended() {
  const std::lock_guard lock(mutex_);
  return ends_;
}

// A step that hangs ends this process. A step that fails ends its requests; the worker goes on, unless the device is
// lost.
bool Server::step() {
  try {
    connection_.watch.begin(step_limit(model_->step_forecast()));
    const bool has_more = model_->step();
    connection_.watch.end();
    return has_more;
  } catch (const DeviceLost& error) {
    connection_.watch.end();
    connection_.send(Lost{error.what()});
    ::_exit(kLostDevice);  // a driver may hang or crash at a regular exit
  } catch (const Error& error) {
    model_->fail_running(error);
  } catch (const std::bad_alloc&) {
    model_->fail_running(OutOfMemory("not enough memory"));
  } catch (const std::exception& error) {
    model_->fail_running(failed("{}", error.what()));
  }
  return true;
}

int Server::run() {
  std::thread([this] { receive_all(); }).detach();
  const std::optional<Message> first = take(true);
  if (!first) return 0;
  const auto* const wanted = std::get_if<Load>(&*first);
  if (wanted == nullptr) return kBadMessage;
  try {
    load(wanted->spec);
  } catch (const DeviceLost& error) {
    connection_.send(Lost{error.what()});
    ::_exit(kLostDevice);
  } catch (const Error& error) {
    connection_.send(LoadFailed{fault_of(error)});
    return 0;
  } catch (const std::bad_alloc&) {
    connection_.send(LoadFailed{fault_of(OutOfMemory("not enough memory"))});
    return 0;
  } catch (const std::exception& error) {
    connection_.send(LoadFailed{fault_of(failed("{}", error.what()))});
    return 0;
  }
  bool works = false;
  while (!has_ended()) {
    while (std::optional<Message> message = take(!works)) {
      if (auto* const request = std::get_if<Add>(&*message)) {
        add(std::move(*request));
      } else if (const auto* const canceled = std::get_if<Cancel>(&*message)) {
        cancel(canceled->ticket);
      } else if (const auto* const paused = std::get_if<Pause>(&*message)) {
        pause(*paused);
      } else {
        return kBadMessage;
      }
      works = true;
    }
    if (works) works = step();
  }
  // A driver that hangs would not let the engine be closed: receive_all() ends the process then.
  std::unique_lock lock(mutex_);
  const std::shared_ptr<LocalModel> last = std::move(model_);
  own_.clear();
  lock.unlock();
  return 0;
}

}  // namespace

int run_child() {
  std::signal(SIGINT, SIG_IGN);  // the program gets it too, and cancels
  sigset_t all;
  sigemptyset(&all);
  sigaddset(&all, SIGINT);
  ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
  install_abort_handler(kCrashNote);
  static Server& server = *new Server;  // the thread that receives lives as long as the process
  return server.run();
}

}  // namespace gabbro::worker
