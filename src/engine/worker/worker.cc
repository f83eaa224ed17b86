#include "src/engine/worker/worker.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "src/base/error.h"

namespace gabbro::worker {
namespace {

constexpr std::chrono::milliseconds kStep{50};     // within which a cancel flag is seen
constexpr std::chrono::milliseconds kAnswer{100};  // for the process to end a request that is canceled
constexpr std::chrono::seconds kHung{10};          // after which a process that did not is replaced
constexpr std::chrono::milliseconds kRegularEnd{3000};
constexpr std::chrono::milliseconds kEndAfterLoss{1000};

}  // namespace

Worker::Worker(EngineSpec spec, WorkerOptions options) : spec_(std::move(spec)), options_(std::move(options)) {
  start();
}

void Worker::wait_until_loaded() {
  while (process_ != nullptr && !is_loaded_) poll(kStep);
  if (final_error_) throw *final_error_;
}

Worker::~Worker() {
  if (process_ == nullptr) return;
  outgoing_ += encode(Shutdown{});
  flush();
  process_->end(abandoned_.empty() ? kRegularEnd : std::chrono::milliseconds(0));  // one that hangs does not react
}

void Worker::start() {
  process_ = std::make_unique<Process>(options_.command);
  reader_ = {};
  outgoing_ = encode(Load{spec_});
  is_loaded_ = false;
  lost_cause_.reset();
  abandoned_.clear();
  flush();  // so that it loads while the program does other things
}

// --- Requests

Ticket Worker::add(GenerationRequest request, std::shared_ptr<Channel> channel) {
  const Ticket ticket = ++tickets_;
  std::string bytes = encode(Add{ticket, std::move(request)});  // refuses one that is too long
  if (process_ == nullptr) {
    channel->failed(*final_error_);
    return ticket;
  }
  entries_.emplace(ticket, Entry{.message = std::move(bytes), .channel = std::move(channel)});
  send_waiting();
  return ticket;
}

// The process has those that it computes, and as many again, so that it need not wait for the next ones.
void Worker::send_waiting() {
  if (!is_loaded_) return;
  const auto most = static_cast<size_t>(2 * std::max<int64_t>(1, loaded_.model.sequences));
  auto sent = static_cast<size_t>(std::ranges::count_if(entries_, [](const auto& e) { return e.second.sent; }));
  for (auto entry = entries_.begin(); entry != entries_.end() && sent < most; ++entry) {
    if (entry->second.sent) continue;
    entry->second.sent = true;
    outgoing_ += entry->second.message;
    if (entry->second.paused) outgoing_ += encode(Pause{entry->first, true});
    ++sent;
  }
  flush();
}

void Worker::cancel(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  to_cancel_.insert(ticket);
}

void Worker::pause(Ticket ticket, bool paused) {
  const std::lock_guard lock(mutex_);
  to_pause_[ticket] = paused;
}

void Worker::pause_wanted() {
  std::map<Ticket, bool> wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted.swap(to_pause_);
  }
  for (const auto& [ticket, paused] : wanted) {
    const auto entry = entries_.find(ticket);
    if (entry == entries_.end()) continue;
    entry->second.paused = paused;
    if (entry->second.sent) outgoing_ += encode(Pause{ticket, paused});
  }
  flush();
}

// Ends the requests that wait here, and asks the process for the others.
void Worker::cancel_wanted(bool all) {
  std::set<Ticket> tickets;
  {
    const std::lock_guard lock(mutex_);
    tickets.swap(to_cancel_);
  }
  if (!all && tickets.empty()) return;
  std::vector<Ending> ended;
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto entry = at++;
    if (entry->second.cancel_deadline || (!all && !tickets.contains(entry->first))) continue;
    if (entry->second.sent) {
      entry->second.cancel_deadline = Clock::now() + kAnswer;
      outgoing_ += encode(Cancel{entry->first});
    } else {
      ended.push_back(end_entry(entry));
    }
  }
  flush();
  for (Ending& one : ended) one.finish_canceled();
}

// A request that is canceled ends here in time, whether the process answers or not.
void Worker::end_overdue() {
  const Clock::time_point now = Clock::now();
  std::vector<Ending> ended;
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto entry = at++;
    if (!entry->second.cancel_deadline || now < *entry->second.cancel_deadline) continue;
    abandoned_.emplace(entry->first, now);
    ended.push_back(end_entry(entry));
  }
  const bool hangs = std::ranges::any_of(abandoned_, [&](const auto& one) { return now - one.second > kHung; });
  if (hangs) lose(fmt::format("the engine's process did not react within {} s", kHung.count()));
  for (Ending& one : ended) one.finish_canceled();
}

Worker::Ending Worker::end_entry(Entries::iterator entry) {
  Ending ending{std::move(entry->second.channel), std::move(entry->second.text)};
  entries_.erase(entry);
  return ending;
}

void Worker::Ending::finish_canceled() {
  GenerateResult result;
  result.text = std::move(text);
  result.stop_reason = StopReason::kCanceled;
  channel->finished(std::move(result));
}

// --- The process

bool Worker::step(const std::atomic<bool>* cancel) {
  if (cancel != nullptr && *cancel) cancel_wanted(true);
  // Without requests it still waits for a process that loads.
  if (entries_.empty() && is_loaded_) return false;
  return poll(kStep);
}

bool Worker::poll(std::chrono::milliseconds limit) {
  cancel_wanted(false);
  pause_wanted();
  if (process_ == nullptr) return false;
  pollfd socket = {process_->socket(), static_cast<short>(outgoing_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
  if (::poll(&socket, 1, static_cast<int>(limit.count())) > 0) {
    flush();
    receive();
  }
  end_overdue();
  return !entries_.empty();
}

// Sends as much as the socket takes; the rest goes later. A process that is gone is noticed by receive().
void Worker::flush() {
  while (process_ != nullptr && !outgoing_.empty()) {
    const ssize_t sent = ::send(process_->socket(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    outgoing_.erase(0, static_cast<size_t>(sent));
  }
}

void Worker::receive() {
  std::array<char, 65536> buffer;
  const ssize_t got = ::recv(process_->socket(), buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return;
  if (got <= 0) return lose("");
  reader_.feed({buffer.data(), static_cast<size_t>(got)});
  const Process* const from = process_.get();
  while (process_.get() == from) {  // a loss replaces it
    std::optional<Message> message;
    try {
      message = reader_.next();
    } catch (const Error& error) {
      return lose(fmt::format("the engine's process cannot be understood: {}", error.what()));
    }
    if (!message) return;
    take(std::move(*message));
  }
}

void Worker::take(Message message) {
  if (auto* const progress = std::get_if<Progress>(&message)) {
    if (!was_loaded_ && options_.on_progress) options_.on_progress(progress->fraction);
  } else if (auto* const loaded = std::get_if<Loaded>(&message)) {
    loaded_ = std::move(loaded->facts);
    is_loaded_ = true;
    was_loaded_ = true;
    send_waiting();
  } else if (auto* const refused = std::get_if<LoadFailed>(&message)) {
    give_up(error_of(refused->fault));
  } else if (auto* const started = std::get_if<Started>(&message)) {
    if (const auto entry = entries_.find(started->ticket); entry != entries_.end()) {
      entry->second.started = true;
      entry->second.channel->started();
    }
  } else if (auto* const text = std::get_if<Text>(&message)) {
    if (const auto entry = entries_.find(text->ticket); entry != entries_.end()) {
      entry->second.text += text->text;
      const std::shared_ptr<Channel> channel = entry->second.channel;
      if (!text->scores.empty()) channel->scores(text->scores);
      channel->text(text->text);
    }
  } else if (auto* const finished = std::get_if<Finished>(&message)) {
    work_ = finished->work;
    restarts_ = 0;
    if (const auto channel = take_ended(finished->ticket)) channel->finished(std::move(finished->result));
  } else if (auto* const failure = std::get_if<Failed>(&message)) {
    if (const auto channel = take_ended(failure->ticket)) channel->failed(error_of(failure->fault));
  } else if (auto* const lost = std::get_if<Lost>(&message)) {
    lost_cause_ = lost->cause;  // and its end follows
  } else {
    lose("the engine's process sent a message of the wrong kind");
  }
}

// Null for a request that has ended here before.
std::shared_ptr<Channel> Worker::take_ended(Ticket ticket) {
  abandoned_.erase(ticket);
  const auto entry = entries_.find(ticket);
  if (entry == entries_.end()) return nullptr;
  const std::shared_ptr<Channel> channel = std::move(entry->second.channel);
  entries_.erase(entry);
  send_waiting();
  return channel;
}

// The process has ended, or is of no use any more. Requests that it had begun are lost, the others wait for the next.
void Worker::lose(const std::string& why) {
  const std::string ending = process_->end(why.empty() ? kEndAfterLoss : std::chrono::milliseconds(0));
  const std::string cause = !why.empty()  ? why
                            : lost_cause_ ? *lost_cause_
                                          : fmt::format("the engine's process ended with {}", ending);
  process_.reset();
  is_loaded_ = false;
  if (!was_loaded_) return give_up(DeviceLost(fmt::format("loading {}: {}", spec_.path, cause)));
  std::vector<Ending> lost, canceled;
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto entry = at++;
    entry->second.sent = false;
    if (entry->second.cancel_deadline) {
      canceled.push_back(end_entry(entry));
    } else if (entry->second.started) {
      lost.push_back(end_entry(entry));
    }
  }
  if (++restarts_ > options_.most_restarts) {
    give_up(DeviceLost(
        fmt::format("the engine was lost {} times without an answer, and is not started again: {}", restarts_, cause)));
  } else {
    // Requests that were lost get the cause.
    if (options_.on_notice)
      options_.on_notice("the engine is started again" + (lost.empty() ? ": " + cause : std::string()));
    try {
      start();
    } catch (const Error& error) {
      give_up(error);
    }
  }
  const DeviceLost error("the answer was lost: " + cause);
  for (Ending& one : lost) one.channel->failed(error);
  for (Ending& one : canceled) one.finish_canceled();
}

// No process from here on.
void Worker::give_up(const Error& error) {
  final_error_ = error;
  process_.reset();
  is_loaded_ = false;
  Entries entries;
  entries.swap(entries_);
  for (auto& [ticket, entry] : entries) entry.channel->failed(error);
}

}  // namespace gabbro::worker
