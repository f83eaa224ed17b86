#include "src/text/chat/calls/named_calls.h"

namespace gabbro::text {
namespace {

using RepairStep = JsonRepair::Step;

constexpr size_t kLongestCallHead = 300;
constexpr std::string_view kCodeFence = "```";

std::string text_before(std::string_view text, std::string_view mark) {
  return std::string(without_spaces(text.substr(0, text.find(mark))));
}

// name[ARGS], or name[CALL_ID]id[ARGS]
std::string mistral_name(std::string_view head) { return text_before(head, "["); }

// name<｜tool▁sep｜>, or function<｜tool▁sep｜>name and the begin of a fence
std::string deepseek_name(std::string_view head) {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  const size_t at = head.find(kSeparator);
  if (at == head.npos) return {};
  const std::string_view rest = without_spaces(head.substr(at + kSeparator.size()));
  if (rest.empty()) return text_before(head, kSeparator);
  return text_before(rest, "\n");
}

// functions.name:0<|tool_call_argument_begin|>
std::string kimi_name(std::string_view head) {
  constexpr std::string_view kPrefix = "functions.";
  std::string name = text_before(head, "<|tool_call_argument_begin|>");
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  return name.substr(0, name.rfind(':'));
}

// commentary to=functions.name <|constrain|>json<|message|>
std::string harmony_name(std::string_view head) {
  constexpr std::string_view kRecipient = "to=", kPrefix = "functions.";
  const size_t at = head.find(kRecipient);
  if (at == head.npos || head.find("<|message|>") == head.npos) return {};
  std::string_view name = head.substr(at + kRecipient.size());
  name = name.substr(0, name.find_first_of(" <\n"));
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return std::string(name);
}

std::vector<std::string> tail_markers(const std::string& end) {
  std::vector<std::string> all{std::string(kCodeFence)};
  if (!end.empty()) all.push_back(end);
  return all;
}

}  // namespace

NamedCallForm mistral_form() {
  return {.begin = "[TOOL_CALLS]", .end = "", .around = {}, .name_of = mistral_name, .name_end = "[ARGS]"};
}

NamedCallForm deepseek_form() {
  return {.begin = "<｜tool▁call▁begin｜>",
          .end = "<｜tool▁call▁end｜>",
          .around = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
          .name_of = deepseek_name,
          .name_end = "<｜tool▁sep｜>"};
}

NamedCallForm kimi_form() {
  return {.begin = "<|tool_call_begin|>",
          .end = "<|tool_call_end|>",
          .around = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"},
          .name_of = kimi_name,
          .name_begin = "functions.",
          .name_end = "<|tool_call_argument_begin|>",
          .has_index = true};
}

NamedCallForm harmony_form() {
  return {.begin = "<|channel|>",
          .end = "<|call|>",
          .around = {},
          .name_of = harmony_name,
          .name_begin = "commentary to=functions.",
          .name_end = " <|constrain|>json<|message|>",
          .ends_answer = true};
}

NamedCallReader::NamedCallReader(NamedCallForm form, KnownTools tools)
    : MarkedCallReader(form.begin, form.around, std::move(tools)), form_(form), tail_(tail_markers(form.end)) {}

void NamedCallReader::begin_call() { state_ = State::kHead; }

void NamedCallReader::step_call(char c) {
  switch (state_) {
    case State::kHead:
      return step_head(c);
    case State::kArguments:
      return step_arguments(c);
    case State::kBroken:
      return step_broken(c);
    case State::kTail:
      return step_tail(c);
  }
}

void NamedCallReader::step_head(char c) {
  std::string_view head = std::string_view(held_).substr(begin_.size());
  if (c == '{') {
    const std::string name = form_.name_of(head);
    held_ += c;
    if (!is_call_name(name)) return reject_call();
    announce(name);
    repair_ = {};
    state_ = State::kArguments;
    return step_arguments(c);
  }
  held_ += c;
  head = std::string_view(held_).substr(begin_.size());
  if (!form_.end.empty() && head.ends_with(form_.end)) {
    head.remove_suffix(form_.end.size());
    const std::string name = form_.name_of(head);
    if (!is_call_name(name)) return reject_call();
    announce(name);
    CallReader::end_call();
    return leave_call();
  }
  if (head.size() > kLongestCallHead) return reject_call();
  if (!head.ends_with(begin_)) return;
  // Another call begins: the first one is text.
  const std::string next = held_.substr(held_.size() - begin_.size());
  held_.resize(held_.size() - begin_.size());
  release();
  held_ = next;
}

void NamedCallReader::step_arguments(char c) {
  std::string passed;
  const RepairStep end = repair_.push(c, passed);
  emit(PieceKind::kArguments, passed);
  if (end == RepairStep::kMore) return;
  if (end == RepairStep::kEnded) {
    emit(PieceKind::kEnd, {});
    after_call_ = true;
    state_ = State::kTail;
    return;
  }
  emit(PieceKind::kArguments, repair_.rest());
  state_ = State::kBroken;
  step_broken(c);
}

// Arguments that are not JSON, up to the end of the call or the begin of the next one.
void NamedCallReader::step_broken(char c) {
  const std::string& end = form_.end.empty() ? form_.begin : form_.end;
  held_ += c;
  while (!held_.empty() && !end.starts_with(held_)) {
    emit(PieceKind::kArguments, std::string_view(held_).substr(0, 1));
    held_.erase(0, 1);
  }
  if (held_ != end) return;
  emit(PieceKind::kEnd, {});
  after_call_ = true;
  if (form_.end.empty()) return begin_call();
  held_.clear();
  leave_call();
}

void NamedCallReader::step_tail(char c) {
  if (held_.empty() && is_call_space(c)) return;
  held_ += c;
  const int found = tail_.find(held_);
  if (found == MarkerSearch::kMore) return;
  const std::string rest = std::exchange(held_, {});
  if (found == 0) return;
  leave_call();
  if (found == MarkerSearch::kText) {
    for (const char one : rest) step(one);
  }
}

void NamedCallReader::finish() {
  if (!in_call()) return finish_text();
  if (state_ == State::kHead) return release();
  if (state_ == State::kArguments) emit(PieceKind::kArguments, repair_.rest());
  if (state_ == State::kBroken) emit(PieceKind::kArguments, held_);
}

}  // namespace gabbro::text
