// Calls in Python's form, and in Gemma's.
#pragma once

#include "src/text/chat/calls/call_reader.h"

namespace gabbro::text {

struct LooseForm {
  std::string begin, end;                      // around the calls; `begin` "[" and no `end`: calls are the whole answer
  std::string name_begin{};                    // before a name
  char open = '(', assign = '=', close = ')';  // of parameters
  std::string quote{};                         // around texts; empty: only ' and "
  // As models write calls.
  bool is_list = false;       // several calls are in [] after `begin`
  std::string between{};      // two calls; empty: each has `begin` and `end`
  std::string separator{};    // of parameters
  bool python_words = false;  // True, False and None; names of members have quotes
};

class LooseCallReader final : public MarkedCallReader {
 public:
  LooseCallReader(LooseForm form, KnownTools tools);

  void finish() override;

 private:
  enum class State { kBeforeName, kName, kKey, kValue, kAfterCall };

  void begin_call() override;
  void step_call(char c) override;
  void step_before_name(char c);
  void step_name(char c);
  void step_key(char c);
  void step_value(char c);
  void step_after_call(char c);
  bool ends_value(char c);
  void end_value();
  void end_loose_call();
  // The text after the calls is read as any text.
  void leave_with(const std::string& rest);
  bool is_bare() const { return form_.end.empty(); }

  const LooseForm form_;
  State state_ = State::kBeforeName;
  size_t name_from_ = 0;  // in held_
  std::string key_, value_;
  int depth_ = 0;          // of brackets in the value
  char quote_ = 0;         // that is open in it
  bool has_call_ = false;  // since the marker
  bool in_marks_ = false;  // between two of form_.quote
  bool is_escaped_ = false;
};

LooseForm python_form();
LooseForm llama4_form();
LooseForm lfm2_form();
LooseForm olmo3_form();
LooseForm function_gemma_form();
LooseForm gemma4_form();

}  // namespace gabbro::text
