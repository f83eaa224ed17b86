// Calls that are objects of JSON with their name in it: within tags, in a list after a marker, or bare.
#pragma once

#include <memory>

#include "src/text/chat/calls/loose_calls.h"
#include "src/text/chat/json_repair.h"

namespace gabbro::text {

struct ObjectMarkers {
  std::string begin, end;  // empty begin: calls are the whole answer; empty end: nothing follows a call or its list
  // As models write calls; readers take other spellings too.
  bool is_list = false;  // the objects are in a list
  std::string name_key = "name", arguments_key = "arguments";
  std::string space{};             // around an object, or before the list
  bool has_open_spelling = false;  // `begin` is JSON: white space may be between its tokens
};

class ObjectCallReader final : public CallReader {
 public:
  // The first byte of `begin` is nowhere else in it. No white space is in it if its spelling is open.
  ObjectCallReader(ObjectMarkers markers, KnownTools tools)
      : CallReader(std::move(tools)), markers_(std::move(markers)) {}

  void step(char c) override;
  void finish() override;

 private:
  enum class State { kText, kPlain, kOpen, kKey, kKeyText, kColon, kValue, kAfterValue, kBroken, kAfterCall };
  enum class Key { kName, kArguments, kOther };

  void step_text(char c);
  bool continues_marker(char c);
  void step_bare(char c);
  bool begins_named_call();
  void step_named(char c);
  void step_object(char c);
  void step_key(char c);
  void step_value(char c);
  void step_broken(char c);
  void step_after_call(char c);
  void begin_object();
  void begin_value(char c);
  void end_value(char c);
  void end_object(char c);
  void announce_object();
  void reject(char c);
  bool has_marker() const { return !markers_.begin.empty(); }

  const ObjectMarkers markers_;
  std::unique_ptr<LooseCallReader> named_;  // of name.call( and all that follows
  State state_ = State::kText;
  size_t begun_marker_ = 0;  // bytes of the marker that `held_` has
  bool is_list_ = false;     // the objects are in a list
  // The call that is being read.
  JsonRepair repair_;
  std::string key_text_, value_, arguments_;
  Key key_ = Key::kOther;
  bool begun_ = false, streams_ = false;  // of the member's value
  bool announced_ = false, has_arguments_ = false, has_extra_brace_ = false;
};

}  // namespace gabbro::text
