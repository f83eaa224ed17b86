#include "src/text/chat/calls/tag_calls.h"

namespace gabbro::text {
namespace {

constexpr size_t kLongestTagName = 200;

// Without what ends it: the key of key" string="true">.
std::string_view until_quote(std::string_view key) { return key.substr(0, key.find('"')); }

std::string_view without_line_ends(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

TagForm invoke_form(const std::string& mark, const std::string& section) {
  return {.begin = "<" + mark + "invoke name=\"",
          .around = {"<" + section + ">", "</" + section + ">"},
          .name_end = "\">",
          .key_begin = "<" + mark + "parameter name=\"",
          .key_end = ">",
          .value_begin = "",
          .value_end = "</" + mark + "parameter>",
          .end = "</" + mark + "invoke>",
          .key_end_of_text = "\">",
          .key_end_of_json = "\">",
          .section_begin = "<" + section + ">",
          .section_end = "</" + section + ">"};
}

}  // namespace

TagForm qwen_form() {
  return {.begin = "<function=",
          .around = {"<tool_call>", "</tool_call>"},
          .name_end = ">",
          .key_begin = "<parameter=",
          .key_end = ">",
          .value_begin = "",
          .value_end = "</parameter>",
          .end = "</function>",
          .drops_line_ends = true,
          .key_end_of_text = ">",
          .key_end_of_json = ">",
          .section_begin = "<tool_call>",
          .section_end = "</tool_call>",
          .wraps_each = true};
}

TagForm glm_form() {
  return {.begin = "<tool_call>",
          .around = {},
          .name_end = "",
          .key_begin = "<arg_key>",
          .key_end = "</arg_key>",
          .value_begin = "<arg_value>",
          .value_end = "</arg_value>",
          .end = "</tool_call>",
          .key_end_of_text = "</arg_key>",
          .key_end_of_json = "</arg_key>"};
}

TagForm minimax_form() { return invoke_form("", "minimax:tool_call"); }

TagForm dsml_form() {
  TagForm form = invoke_form("｜DSML｜", "｜DSML｜function_calls");
  form.around.insert(form.around.end(), {"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"});
  form.key_end_of_text = "\" string=\"true\">";
  form.key_end_of_json = "\" string=\"false\">";
  return form;
}

void TagCallReader::begin_call() {
  state_ = State::kName;
  value_.clear();
}

void TagCallReader::step_call(char c) {
  switch (state_) {
    case State::kName:
      return step_name(c);
    case State::kBetween:
      return step_between(c);
    case State::kBeforeValue:
      return step_before_value(c);
    case State::kKey:
      value_ += c;
      if (!value_.ends_with(form_.key_end)) return;
      value_.resize(value_.size() - form_.key_end.size());
      key_ = without_spaces(until_quote(value_));
      value_.clear();
      state_ = form_.value_begin.empty() ? State::kValue : State::kBeforeValue;
      return;
    case State::kValue:
      value_ += c;
      if (value_.ends_with(form_.value_end)) end_value();
      return;
  }
}

// The name is in `held_`, after the marker.
void TagCallReader::step_name(char c) {
  held_ += c;
  const std::string_view name = std::string_view(held_).substr(begin_.size());
  const auto before = [&](const std::string& end) { return name.substr(0, name.size() - end.size()); };
  if (!form_.name_end.empty()) {
    if (name.ends_with(form_.name_end)) return announce_name(before(form_.name_end));
  } else if (c == '\n' && !without_spaces(name).empty()) {
    return announce_name(name);
  } else if (name.ends_with(form_.key_begin)) {
    announce_name(before(form_.key_begin));
    if (in_call()) state_ = State::kKey;
    return;
  } else if (name.ends_with(form_.end)) {
    announce_name(before(form_.end));
    if (in_call()) end_tag_call();
    return;
  }
  if (name.size() > kLongestTagName) reject_call();
}

// `name` may be a part of `held_`. Leaves the call if it cannot be a name.
void TagCallReader::announce_name(std::string_view name) {
  const std::string bare(without_spaces(name));
  if (!is_call_name(bare)) return reject_call();
  announce(bare);
  value_.clear();
  state_ = State::kBetween;
}

void TagCallReader::step_between(char c) {
  if (held_.empty() && is_call_space(c)) return;
  held_ += c;
  if (held_ == form_.key_begin) {
    held_.clear();
    state_ = State::kKey;
  } else if (held_ == form_.end) {
    held_.clear();
    end_tag_call();
  } else if (!form_.key_begin.starts_with(held_) && !form_.end.starts_with(held_)) {
    const std::string rest = std::exchange(held_, {});
    end_tag_call();
    for (const char one : rest) step(one);
  }
}

void TagCallReader::step_before_value(char c) {
  if (held_.empty() && is_call_space(c)) return;
  held_ += c;
  if (held_ == form_.value_begin) {
    held_.clear();
    state_ = State::kValue;
  } else if (!form_.value_begin.starts_with(held_)) {  // the tag is missing
    state_ = State::kValue;
    for (const char one : std::exchange(held_, {})) step(one);
  }
}

void TagCallReader::end_value() {
  value_.resize(value_.size() - form_.value_end.size());
  const std::string_view value = form_.drops_line_ends ? without_line_ends(value_) : std::string_view(value_);
  add_parameter(key_, json_of_text(key_, value));
  value_.clear();
  state_ = State::kBetween;
}

void TagCallReader::end_tag_call() {
  end_call();
  leave_call();
}

void TagCallReader::finish() {
  if (!in_call()) return finish_text();
  if (state_ == State::kName) return release();
  if (state_ == State::kBetween) end_call();  // only its end is missing
}

}  // namespace gabbro::text
