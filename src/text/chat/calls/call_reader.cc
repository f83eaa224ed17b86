#include "src/text/chat/calls/call_reader.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace gabbro::text {

void CallReader::emit(PieceKind kind, std::string_view text) {
  if (text.empty() && kind != PieceKind::kEnd) return;
  const bool is_joined = kind == PieceKind::kText || kind == PieceKind::kArguments;
  if (is_joined && !pieces_.empty() && pieces_.back().kind == kind) {
    pieces_.back().text += text;
  } else {
    pieces_.push_back({kind, std::string(text)});
  }
}

void CallReader::release() {
  if (!after_call_) emit(PieceKind::kText, blanks_);
  emit(PieceKind::kText, held_);
  if (!held_.empty()) {
    after_call_ = false;
    has_text_ = true;
  }
  blanks_.clear();
  held_.clear();
}

void CallReader::announce(const std::string& name) {
  blanks_.clear();
  held_.clear();
  name_ = name;
  has_parameters_ = false;
  emit(PieceKind::kCall, name);
}

void CallReader::add_parameter(std::string_view key, std::string_view json) {
  emit(PieceKind::kArguments, has_parameters_ ? ", " : "{");
  emit(PieceKind::kArguments, json_string(key) + ": ");
  emit(PieceKind::kArguments, json);
  has_parameters_ = true;
}

void CallReader::end_call() {
  emit(PieceKind::kArguments, has_parameters_ ? "}" : "{}");
  emit(PieceKind::kEnd, {});
  after_call_ = true;
}

std::string CallReader::json_of_text(const std::string& key, std::string_view value) const {
  const auto tool = tools_.find(name_);
  if (tool != tools_.end() && tool->second.contains(key)) return json_string(value);
  const std::string_view bare = without_spaces(value);
  if (bare == "True") return "true";
  if (bare == "False") return "false";
  if (bare == "None") return "null";
  return nlohmann::json::accept(bare) ? std::string(bare) : json_string(value);
}

namespace {

std::vector<std::string> markers_with_first(const std::string& first, std::vector<std::string> others) {
  others.insert(others.begin(), first);
  return others;
}

}  // namespace

MarkedCallReader::MarkedCallReader(std::string begin, std::vector<std::string> around, KnownTools tools)
    : CallReader(std::move(tools)), begin_(std::move(begin)), search_(markers_with_first(begin_, std::move(around))) {}

void MarkedCallReader::step(char c) { in_call_ ? step_call(c) : step_text(c); }

void MarkedCallReader::step_text(char c) {
  if (held_.empty() && is_call_space(c)) {
    blanks_ += c;
    return;
  }
  held_ += c;
  const int found = search_.find(held_);
  if (found == MarkerSearch::kMore) return;
  if (found == 0) {
    in_call_ = true;
    return begin_call();
  }
  if (found > 0) {
    blanks_ += std::exchange(held_, {});  // left out as white space is
    return;
  }
  const std::string text = std::exchange(held_, {});
  held_ = text.substr(0, 1);
  release();
  for (const char one : std::string_view(text).substr(1)) step(one);
}

void MarkedCallReader::reject_call() {
  in_call_ = false;
  const std::string text = std::exchange(held_, {});
  held_ = text.substr(0, begin_.size());
  release();
  for (const char one : std::string_view(text).substr(begin_.size())) step(one);
}

void MarkedCallReader::finish_text() {
  if (after_call_ && held_.empty()) blanks_.clear();
  release();
}

int MarkerSearch::find(std::string_view held) const {
  for (size_t i = 0; i < markers_.size(); ++i) {
    if (held == markers_[i]) return static_cast<int>(i);
  }
  const bool begins = std::ranges::any_of(markers_, [&](const std::string& one) { return one.starts_with(held); });
  return begins ? kMore : kText;
}

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && is_call_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_call_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_call_name(std::string_view name) {
  constexpr size_t kLongest = 200;
  return !name.empty() && name.size() <= kLongest && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  });
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace gabbro::text
