#include "src/text/chat/harmony.h"

#include <algorithm>
#include <array>

namespace gabbro::text {
namespace {

constexpr std::string_view kChannel = "<|channel|>", kStart = "<|start|>", kMessage = "<|message|>";
constexpr std::array<std::string_view, 6> kMarkers = {kChannel, kStart, kMessage, "<|end|>", "<|return|>", "<|call|>"};
constexpr std::string_view kFinal = "final";

// Whether `text` may become one that begins with `marker`.
bool may_begin(std::string_view text, std::string_view marker) {
  const size_t length = std::min(text.size(), marker.size());
  return text.substr(0, length) == marker.substr(0, length);
}

}  // namespace

std::string HarmonyChannels::feed(std::string_view piece) {
  pending_ += piece;
  return advance(false);
}

std::string HarmonyChannels::finish() {
  std::string shown = advance(true);
  return state_ == State::kBody ? shown + leave_body() : shown;
}

std::string HarmonyChannels::advance(bool at_end) {
  if (state_ == State::kUndecided) {
    const bool possible = may_begin(pending_, kChannel) || may_begin(pending_, kStart);
    const bool decided = pending_.starts_with(kChannel) || pending_.starts_with(kStart);
    if (possible && !decided && !at_end) return "";
    state_ = decided ? State::kBetween : State::kPlain;
  }
  std::string shown;
  while (!pending_.empty()) {
    if (state_ == State::kPlain) {
      shown += take(pending_);
      pending_.clear();
      break;
    }
    const size_t at = pending_.find("<|");
    const std::string_view rest = std::string_view(pending_).substr(std::min(at, pending_.size()));
    const auto marker = std::ranges::find_if(kMarkers, [&](std::string_view m) { return rest.starts_with(m); });
    if (at != pending_.npos && marker != kMarkers.end()) {
      shown += take(std::string_view(pending_).substr(0, at));
      pending_.erase(0, at + marker->size());
      shown += follow(*marker);
      continue;
    }
    // The begin of a marker waits for the rest of it; other text with its first character does not.
    size_t count = at != pending_.npos ? at : pending_.size() - (pending_.ends_with('<') ? 1 : 0);
    const bool waits = std::ranges::any_of(kMarkers, [&](std::string_view m) { return may_begin(rest, m); });
    if (at != pending_.npos && !waits) count = at + 2;
    if (at_end) count = pending_.size();
    if (count == 0) break;
    shown += take(std::string_view(pending_).substr(0, count));
    pending_.erase(0, count);
  }
  return shown;
}

// Text of the present state.
std::string HarmonyChannels::take(std::string_view text) {
  if (state_ == State::kHeader) channel_ += text;
  if (state_ == State::kHeader || state_ == State::kBetween) return "";
  if (state_ == State::kPlain || channel_ == kFinal) answer_ += text;
  return std::string(text);
}

std::string HarmonyChannels::follow(std::string_view marker) {
  std::string shown;
  if (state_ == State::kBody) shown = leave_body();
  if (marker == kChannel) {
    channel_.clear();
    state_ = State::kHeader;
  } else if (marker == kMessage) {
    // "commentary to=functions.weather <|constrain|>json" is of the channel "commentary".
    channel_ = channel_.substr(0, channel_.find_first_of(" <"));
    state_ = State::kBody;
    if (channel_ != kFinal) shown += "[" + channel_ + "] ";
  } else {
    state_ = State::kBetween;
  }
  return shown;
}

std::string HarmonyChannels::leave_body() { return channel_ == kFinal ? "" : "\n\n"; }

}  // namespace gabbro::text
