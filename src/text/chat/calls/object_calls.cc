#include "src/text/chat/calls/object_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace gabbro::text {
namespace {

using RepairStep = JsonRepair::Step;

// The text of a JSON string that was checked.
std::string decoded(const std::string& json) {
  const auto value = nlohmann::json::parse(json, nullptr, false);
  return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace

void ObjectCallReader::finish() {
  if (named_ != nullptr) {
    named_->finish();
    for (const ToolCallPiece& piece : named_->take()) emit(piece.kind, piece.text);
    return;
  }
  if (state_ == State::kBroken) {
    emit(PieceKind::kArguments, held_);
  } else if (state_ == State::kText) {
    if (after_call_ && (held_.empty() || held_ == ";")) blanks_.clear(), held_.clear();
    release();
  } else if (state_ != State::kPlain && state_ != State::kAfterCall) {
    if (!announced_) release();
    if (announced_ && streams_) emit(PieceKind::kArguments, repair_.rest());
    if (announced_ && has_arguments_) emit(PieceKind::kEnd, {});  // only the call's closing brackets are missing
  }
  blanks_.clear();
  held_.clear();
  state_ = State::kPlain;
}

void ObjectCallReader::step(char c) {
  switch (state_) {
    case State::kText:
      return has_marker() ? step_text(c) : step_bare(c);
    case State::kPlain:
      return emit(PieceKind::kText, std::string_view(&c, 1));
    case State::kBroken:
      return step_broken(c);
    case State::kAfterCall:
      return step_after_call(c);
    default:
      return step_object(c);
  }
}

bool ObjectCallReader::continues_marker(char c) {
  const std::string_view begun = std::string_view(markers_.begin).substr(0, begun_marker_);
  const bool in_string = std::ranges::count(begun, '"') % 2 == 1;
  if (markers_.has_open_spelling && is_call_space(c) && !in_string) return true;
  if (markers_.begin[begun_marker_] != c) return false;
  ++begun_marker_;
  return true;
}

void ObjectCallReader::step_text(char c) {
  if (!held_.empty() && continues_marker(c)) {
    held_ += c;
    if (begun_marker_ == markers_.begin.size()) {
      is_list_ = false;
      begin_object();
    }
    return;
  }
  // The marker's first byte is nowhere else in it, so only this byte may begin another one.
  if (!held_.empty()) {
    const std::string_view text = without_spaces(held_);
    std::string blanks = held_.substr(text.size());  // a call may follow them
    held_.resize(text.size());
    release();
    blanks_ = std::move(blanks);
  }
  if (c == markers_.begin.front()) {
    held_ = c;
    begun_marker_ = 1;
  } else if (is_call_space(c)) {
    blanks_ += c;
  } else {
    held_ = c;
    release();
  }
}

// Whether `held_` begins name.call( of a known tool, as Llama 3 calls tools that it was trained with. Its parameters
// follow as in Python.
bool ObjectCallReader::begins_named_call() {
  if (has_text() || after_call_) return false;
  for (const auto& [name, parameters] : tools_) {
    const std::string head = name + ".call(";
    if (held_ == head) {
      named_ = std::make_unique<LooseCallReader>(python_form(), tools_);
      for (const char c : "[" + name) named_->step(c);
      held_.clear();
      blanks_.clear();
      step_named('(');
      return true;
    }
    if (head.starts_with(held_)) return true;
  }
  return false;
}

void ObjectCallReader::step_named(char c) {
  named_->step(c);
  for (const ToolCallPiece& piece : named_->take()) emit(piece.kind, piece.text);
}

// Without a marker a call is at the begin of the answer, or after another one.
void ObjectCallReader::step_bare(char c) {
  if (named_ != nullptr) return step_named(c);
  if (is_call_space(c)) {
    (held_.empty() ? blanks_ : held_) += c;
    return;
  }
  held_ += c;
  if (begins_named_call()) return;
  if (c == '{' && (held_.size() == 1 || after_call_)) {
    begin_object();
    state_ = State::kKey;
  } else if (c != ';' || !after_call_ || held_.size() > 1) {
    release();
    state_ = State::kPlain;
  }
}

void ObjectCallReader::begin_object() {
  state_ = State::kOpen;
  name_.clear();
  arguments_.clear();
  streams_ = announced_ = has_arguments_ = has_extra_brace_ = false;
}

void ObjectCallReader::step_object(char c) {
  if (!announced_) held_ += c;
  if (state_ == State::kKeyText) return step_key(c);
  if (state_ == State::kValue) return step_value(c);
  if (is_call_space(c)) return;
  if (state_ == State::kOpen && c == '{') {
    state_ = State::kKey;
  } else if (state_ == State::kOpen && c == '[' && !is_list_ && has_marker()) {
    is_list_ = true;
  } else if (state_ == State::kKey && c == '"') {
    repair_ = {};
    key_text_.clear();
    state_ = State::kKeyText;
    repair_.push(c, key_text_);
  } else if (state_ == State::kColon && c == ':') {
    repair_ = {};
    value_.clear();
    begun_ = streams_ = false;
    state_ = State::kValue;
  } else if (state_ == State::kAfterValue && c == ',') {
    state_ = State::kKey;
  } else if ((state_ == State::kAfterValue || state_ == State::kKey) && c == '}') {
    end_object(c);
  } else {
    reject(c);
  }
}

void ObjectCallReader::step_key(char c) {
  const RepairStep end = repair_.push(c, key_text_);
  if (end == RepairStep::kMore) return;
  if (end != RepairStep::kEnded) return reject(c);
  const std::string key = decoded(key_text_);
  key_ = Key::kOther;
  if ((key == "name" || key == "tool_name") && name_.empty()) key_ = Key::kName;
  if ((key == "arguments" || key == "parameters") && !has_arguments_) key_ = Key::kArguments;
  // Without a marker an object with other members is an answer.
  const bool is_usual = key_ != Key::kOther || key == "type" || key == "id";
  if (!is_usual && !has_marker() && !announced_) return reject(c);
  state_ = State::kColon;
}

void ObjectCallReader::step_value(char c) {
  if (!begun_ && !is_call_space(c)) begin_value(c);
  std::string passed;
  const RepairStep end = repair_.push(c, passed);
  streams_ ? emit(PieceKind::kArguments, passed) : void(value_ += passed);
  if (end == RepairStep::kMore) return;
  if (end == RepairStep::kWrong && streams_) {
    emit(PieceKind::kArguments, repair_.rest());
    state_ = State::kBroken;
    held_.clear();
    return step_broken(c);
  }
  if (end == RepairStep::kWrong) return reject(c);
  state_ = State::kAfterValue;
  end_value(c);
  if (end != RepairStep::kPast || state_ != State::kAfterValue) return;
  if (!announced_) held_.pop_back();
  step_object(c);
}

void ObjectCallReader::begin_value(char c) {
  begun_ = true;
  if (key_ != Key::kArguments || c != '{' || name_.empty()) return;
  announce_object();
  streams_ = true;
}

void ObjectCallReader::end_value(char c) {
  if (std::exchange(streams_, false)) {
    has_arguments_ = true;
  } else if (key_ == Key::kName) {
    name_ = decoded(value_);
    if (name_.empty() || (!has_marker() && !is_known(name_))) return reject(c);
    if (has_arguments_) announce_object();
  } else if (key_ == Key::kArguments) {
    // An object, also as text in a string; or nothing.
    if (value_.starts_with('"')) value_ = decoded(value_);
    if (value_ == "null" || value_.empty()) value_ = "{}";
    if (!nlohmann::json::parse(value_, nullptr, false).is_object()) return reject(c);
    arguments_ = value_;
    has_arguments_ = true;
    if (!name_.empty()) announce_object();
  }
}

void ObjectCallReader::announce_object() {
  if (announced_) return;
  announced_ = true;
  blanks_.clear();
  held_.clear();
  emit(PieceKind::kCall, name_);
  emit(PieceKind::kArguments, arguments_);
}

void ObjectCallReader::end_object(char c) {
  if (name_.empty()) return reject(c);
  announce_object();
  if (!has_arguments_) emit(PieceKind::kArguments, "{}");
  emit(PieceKind::kEnd, {});
  after_call_ = true;
  state_ = has_marker() ? State::kAfterCall : State::kText;
}

// The call is text. One whose name was passed on ends before this byte.
void ObjectCallReader::reject(char c) {
  if (announced_) {
    emit(PieceKind::kEnd, {});
    after_call_ = true;
    state_ = has_marker() ? State::kAfterCall : State::kPlain;
  } else {
    held_.pop_back();
    release();
    state_ = has_marker() ? State::kText : State::kPlain;
  }
  step(c);
}

// Arguments that are not JSON, up to the end of the call.
void ObjectCallReader::step_broken(char c) {
  held_ += c;
  const bool has_end = !markers_.end.empty();
  if (has_end && held_ == markers_.end) {
    held_.clear();
    emit(PieceKind::kEnd, {});
    after_call_ = true;
    state_ = State::kText;
  } else if (!has_end || !markers_.end.starts_with(held_)) {
    const bool may_begin = has_end && c == markers_.end.front();
    if (may_begin) held_.pop_back();
    emit(PieceKind::kArguments, held_);
    held_ = may_begin ? std::string(1, c) : std::string();
  }
}

// Between a call's object and its end marker; a brace too many, or another call, may come.
void ObjectCallReader::step_after_call(char c) {
  if (held_.empty()) {
    if (is_call_space(c)) return;
    const bool is_end = !is_list_ && markers_.end == "}";  // of kGeneric, and no brace too many
    if (c == '}' && !is_end && !std::exchange(has_extra_brace_, true)) return;
    if (is_list_ && c == ',') return;
    if (is_list_ && c == ']') {
      is_list_ = false;
      if (markers_.end.empty()) state_ = State::kText;
      return;
    }
    if (c == '{') {
      begin_object();
      held_ = c;
      state_ = State::kKey;
      return;
    }
  }
  held_ += c;
  if (!markers_.end.empty() && held_ == markers_.end) {
    held_.clear();
    state_ = State::kText;
  } else if (!markers_.end.starts_with(held_)) {
    state_ = State::kText;
    for (const char one : std::exchange(held_, {})) step(one);
  }
}

}  // namespace gabbro::text
