// Calls that are a marker, a head with the name, and the arguments as an object of JSON.
#pragma once

#include "src/text/chat/calls/call_reader.h"
#include "src/text/chat/json_repair.h"

namespace gabbro::text {

struct NamedCallForm {
  std::string begin, end;           // of a call; empty end: nothing follows the arguments
  std::vector<std::string> around;  // markers of a section of calls
  // The name from the head, which is what stands between `begin` and the arguments; empty: it is none.
  std::string (*name_of)(std::string_view head);
  // The head as models write it.
  std::string name_begin{}, name_end;  // around the name
  bool has_index = false;              // ":" and the number of the call are between the name and name_end
  bool ends_answer = false;            // nothing follows a call
};

class NamedCallReader final : public MarkedCallReader {
 public:
  NamedCallReader(NamedCallForm form, KnownTools tools);

  void finish() override;

 private:
  enum class State { kHead, kArguments, kBroken, kTail };

  void begin_call() override;
  void step_call(char c) override;
  void step_head(char c);
  void step_arguments(char c);
  void step_broken(char c);
  void step_tail(char c);

  const NamedCallForm form_;
  const MarkerSearch tail_;
  State state_ = State::kHead;
  JsonRepair repair_;
};

NamedCallForm mistral_form();
NamedCallForm deepseek_form();
NamedCallForm kimi_form();
NamedCallForm harmony_form();

}  // namespace gabbro::text
