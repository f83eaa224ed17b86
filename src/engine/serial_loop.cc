#include "src/engine/serial_loop.h"

namespace gabbro {

SerialLoop::SerialLoop(std::shared_ptr<Engine> engine, std::shared_ptr<Drafter> drafter)
    : engine_(engine), session_(std::move(engine)), drafter_(std::move(drafter)) {}

Ticket SerialLoop::add(GenerationRequest request, std::shared_ptr<Channel> channel) {
  check_request(request, engine_->facts(), engine_->tokenizer());
  request.options.drafter = drafter_;
  waiting_.push_back({++tickets_, std::move(request), std::move(channel)});
  return tickets_;
}

void SerialLoop::cancel(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  to_cancel_.insert(ticket);
  interrupt_ = interrupt_ || (running_ && running_->ticket == ticket);
}

bool SerialLoop::begin_next(bool all_canceled) {
  const std::lock_guard lock(mutex_);
  running_ = std::move(waiting_.front());
  waiting_.pop_front();
  interrupt_ = false;
  std::erase_if(to_cancel_, [&](Ticket ticket) { return ticket < running_->ticket; });  // they had ended
  return !all_canceled && to_cancel_.erase(running_->ticket) == 0;
}

bool SerialLoop::step(const std::atomic<bool>* cancel) {
  if (waiting_.empty()) return false;
  GenerateResult result{.text = {}, .token_ids = {}, .stop_reason = StopReason::kCanceled};
  const bool runs = begin_next(cancel != nullptr && *cancel);
  const GenerationRequest& request = running_->request;
  if (runs) {
    running_->channel->started();
    const auto pass_text = [&](std::string_view text) { running_->channel->text(text); };
    result = generate(session_, request.prompt, request.options, pass_text, cancel != nullptr ? cancel : &interrupt_);
  } else {
    result.prompt_tokens = std::ssize(request.prompt);
  }
  end_running()->finished(std::move(result));
  return !waiting_.empty();
}

std::shared_ptr<Channel> SerialLoop::end_running() {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Channel> channel = running_->channel;
  to_cancel_.erase(running_->ticket);
  running_.reset();
  return channel;
}

void SerialLoop::fail_running(const Error& error) {
  if (running_) end_running()->failed(error);
}

}  // namespace gabbro
