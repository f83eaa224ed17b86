// Reads the calls of one form in an answer's text, byte by byte: what the readers of all forms share.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/text/chat/tool_calls.h"

namespace gabbro::text {

class CallReader {
 public:
  explicit CallReader(KnownTools tools) : tools_(std::move(tools)) {}
  virtual ~CallReader() = default;
  CallReader(const CallReader&) = delete;
  CallReader& operator=(const CallReader&) = delete;

  virtual void step(char c) = 0;
  virtual void finish() = 0;
  std::vector<ToolCallPiece> take() { return std::exchange(pieces_, {}); }

 protected:
  using PieceKind = ToolCallPiece::Kind;

  void emit(PieceKind kind, std::string_view text);
  // The text that was held belongs to no call.
  void release();
  bool has_text() const { return has_text_; }  // text came
  bool is_known(const std::string& name) const { return tools_.contains(name); }

  // A call whose parameters are not written as JSON: its name, each parameter as JSON, its end.
  void announce(const std::string& name);
  void add_parameter(std::string_view key, std::string_view json);
  void end_call();
  // A value as it is written: text, if the tool's schema says so or it is not JSON.
  std::string json_of_text(const std::string& key, std::string_view value) const;

  const KnownTools tools_;
  std::string blanks_, held_;  // white space, and what follows it: text or a call
  bool after_call_ = false;
  std::string name_;             // of the call that is being read
  bool has_parameters_ = false;  // of it were emitted

 private:
  std::vector<ToolCallPiece> pieces_;
  bool has_text_ = false;
};

// Finds one of several markers in text, and holds back what may begin one.
class MarkerSearch {
 public:
  // Markers are not empty, and none begins with another one.
  explicit MarkerSearch(std::vector<std::string> markers) : markers_(std::move(markers)) {}

  static constexpr int kMore = -2, kText = -1;
  // The index of the marker that `held` is; kMore: it begins one; kText: its first byte begins none.
  int find(std::string_view held) const;

 private:
  std::vector<std::string> markers_;
};

// A reader of calls that begin with a marker. Markers around several calls are left out next to calls.
class MarkedCallReader : public CallReader {
 public:
  // `begin`: of a call; `around`: of a section of calls.
  MarkedCallReader(std::string begin, std::vector<std::string> around, KnownTools tools);

  void step(char c) final;

 protected:
  virtual void begin_call() = 0;  // `held_` is the marker
  virtual void step_call(char c) = 0;
  // The call is text, and so is the marker; what follows is read again.
  void reject_call();
  void leave_call() { in_call_ = false; }
  bool in_call() const { return in_call_; }
  void finish_text();

  const std::string begin_;

 private:
  void step_text(char c);

  const MarkerSearch search_;
  bool in_call_ = false;
};

inline bool is_call_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
std::string_view without_spaces(std::string_view text);  // around it
// 1 to 200 of letters, digits, "_", "-" and ".".
bool is_call_name(std::string_view name);
std::string json_string(std::string_view text);

}  // namespace gabbro::text
