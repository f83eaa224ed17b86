#include "src/text/chat/calls/loose_calls.h"

#include "src/text/chat/calls/loose_value.h"

namespace gabbro::text {
namespace {

constexpr size_t kLongestLooseName = 200;

LooseForm gemma_form(const char* begin, const char* end, const char* quote) {
  return {.begin = begin,
          .end = end,
          .name_begin = "call:",
          .open = '{',
          .assign = ':',
          .close = '}',
          .quote = quote,
          .separator = ","};
}

LooseForm pythonic_form(const char* begin, const char* end, bool is_list, const char* between = ", ") {
  return {.begin = begin, .end = end, .is_list = is_list, .between = between, .separator = ", ", .python_words = true};
}

}  // namespace

LooseForm python_form() { return pythonic_form("[", "", false); }
LooseForm llama4_form() { return pythonic_form("<|python_start|>", "<|python_end|>", true); }
LooseForm lfm2_form() { return pythonic_form("<|tool_call_start|>", "<|tool_call_end|>", true); }
LooseForm olmo3_form() { return pythonic_form("<function_calls>", "</function_calls>", false, "\n"); }
LooseForm function_gemma_form() { return gemma_form("<start_function_call>", "<end_function_call>", "<escape>"); }
LooseForm gemma4_form() { return gemma_form("<|tool_call>", "<tool_call|>", "<|\"|>"); }

LooseCallReader::LooseCallReader(LooseForm form, KnownTools tools)
    : MarkedCallReader(form.begin, {}, std::move(tools)), form_(std::move(form)) {}

void LooseCallReader::begin_call() {
  if (is_bare() && has_text()) return reject_call();
  state_ = State::kBeforeName;
  name_from_ = held_.size();
  has_call_ = false;
}

void LooseCallReader::step_call(char c) {
  switch (state_) {
    case State::kBeforeName:
      return step_before_name(c);
    case State::kName:
      return step_name(c);
    case State::kKey:
      return step_key(c);
    case State::kValue:
      return step_value(c);
    case State::kAfterCall:
      return step_after_call(c);
  }
}

void LooseCallReader::step_before_name(char c) {
  const bool is_list = c == '[' && !is_bare() && name_from_ == begin_.size();
  if (is_call_space(c) || is_list) {
    if (!held_.empty()) held_ += c;
    name_from_ = held_.size();
    return;
  }
  state_ = State::kName;
  step_name(c);
}

// The name is in `held_`, from name_from_ on.
void LooseCallReader::step_name(char c) {
  held_ += c;
  std::string_view name = std::string_view(held_).substr(name_from_);
  const std::string_view prefix = form_.name_begin;
  const size_t known = std::min(name.size(), prefix.size());
  bool is_possible = name.substr(0, known) == prefix.substr(0, known);
  name.remove_prefix(known);
  if (is_possible && c == form_.open && name.size() > 1) {
    name.remove_suffix(1);
    const std::string bare(without_spaces(name));
    if (is_call_name(bare) && (!is_bare() || is_known(bare))) {
      announce(bare);
      has_call_ = true;
      key_.clear();
      state_ = State::kKey;
      return;
    }
    is_possible = false;
  }
  if (is_possible && (name.empty() || (is_call_name(name) && name.size() <= kLongestLooseName))) return;
  if (!has_call_) return reject_call();
  leave_with(std::exchange(held_, {}));
}

void LooseCallReader::step_key(char c) {
  if (c == form_.assign && !key_.empty()) {
    value_.clear();
    depth_ = 0;
    quote_ = 0;
    in_marks_ = is_escaped_ = false;
    state_ = State::kValue;
  } else if (c == form_.close && key_.empty()) {
    end_loose_call();
  } else if (is_call_space(c) || (c == ',' && key_.empty())) {
    return;
  } else if (key_ += c; !is_call_name(key_)) {  // a value without a name
    end_loose_call();
    leave_with(key_);
  }
}

// Follows quotes and brackets. Whether `c` is behind the value.
bool LooseCallReader::ends_value(char c) {
  if (std::exchange(is_escaped_, false)) return false;
  if (in_marks_) return false;
  if (quote_ != 0) {
    is_escaped_ = c == '\\';
    if (c == quote_) quote_ = 0;
    return false;
  }
  if (depth_ == 0 && (c == ',' || c == form_.close)) return true;
  const bool has_quotes = form_.quote.empty();
  if (has_quotes && (c == '\'' || c == '"')) quote_ = c;
  if (c == '(' || c == '[' || c == '{') ++depth_;
  if (c == ')' || c == ']' || c == '}') --depth_;
  return false;
}

void LooseCallReader::step_value(char c) {
  if (ends_value(c)) {
    end_value();
    if (c == form_.close) end_loose_call();
    return;
  }
  value_ += c;
  if (!form_.quote.empty() && value_.ends_with(form_.quote)) in_marks_ = !in_marks_;
}

void LooseCallReader::end_value() {
  const std::optional<std::string> json = json_of_loose(value_, form_.quote);
  add_parameter(key_, json ? *json : json_string(without_spaces(value_)));
  key_.clear();
  state_ = State::kKey;
}

void LooseCallReader::end_loose_call() {
  end_call();
  held_.clear();
  state_ = State::kAfterCall;
}

void LooseCallReader::step_after_call(char c) {
  if (held_.empty()) {
    if (is_call_space(c)) return;
    if (c == ',' || c == ';') {
      state_ = State::kBeforeName;
      name_from_ = 0;
      return;
    }
    if (c == ']') return is_bare() ? leave_call() : void();
  }
  held_ += c;
  if (!is_bare() && held_ == form_.end) {
    held_.clear();
    return leave_call();
  }
  if (!is_bare() && form_.end.starts_with(held_)) return;
  const std::string rest = std::exchange(held_, {});
  if (is_bare()) return leave_with(rest);
  // Another call without a comma before it.
  state_ = State::kBeforeName;
  name_from_ = 0;
  for (const char one : rest) step(one);
}

void LooseCallReader::leave_with(const std::string& rest) {
  leave_call();
  const std::string text = rest;
  for (const char one : text) step(one);
}

void LooseCallReader::finish() {
  if (!in_call()) return finish_text();
  if (state_ == State::kBeforeName || state_ == State::kName) return release();
  if (state_ == State::kKey && key_.empty()) end_call();  // only its end is missing
}

}  // namespace gabbro::text
