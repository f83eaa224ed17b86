// Calls whose parameters are in tags, as text.
#pragma once

#include "src/text/chat/calls/call_reader.h"

namespace gabbro::text {

struct TagForm {
  std::string begin;                   // of a call; the name follows
  std::vector<std::string> around;     // markers of a section of calls
  std::string name_end;                // after the name; empty: the end of a line, or what follows the name
  std::string key_begin, key_end;      // around the name of a parameter
  std::string value_begin, value_end;  // around its value; empty begin: none
  std::string end;                     // of a call
  bool drops_line_ends = false;        // one line end at the begin and at the end of a value is not a part of it
  // As models write calls, each part on its own line.
  std::string key_end_of_text, key_end_of_json;  // after the name of a parameter; each ends with key_end
  std::string section_begin{}, section_end{};    // of `around`; empty: none
  bool wraps_each = false;                       // each call has a section
};

class TagCallReader final : public MarkedCallReader {
 public:
  TagCallReader(TagForm form, KnownTools tools)
      : MarkedCallReader(form.begin, form.around, std::move(tools)), form_(std::move(form)) {}

  void finish() override;

 private:
  enum class State { kName, kBetween, kKey, kBeforeValue, kValue };

  void begin_call() override;
  void step_call(char c) override;
  void step_name(char c);
  void step_between(char c);
  void step_before_value(char c);
  void announce_name(std::string_view name);
  void end_value();
  void end_tag_call();

  const TagForm form_;
  State state_ = State::kName;
  std::string key_, value_;
};

TagForm qwen_form();
TagForm glm_form();
TagForm minimax_form();
TagForm dsml_form();

}  // namespace gabbro::text
