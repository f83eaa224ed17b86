#include "src/text/chat/json_repair.h"

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

namespace gabbro::text {
namespace {

constexpr size_t kDeepestJson = 64, kLongestScalar = 400;

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_scalar_byte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.';
}

}  // namespace

JsonRepair::Step JsonRepair::push(char c, std::string& out) {
  if (state_ == State::kString || state_ == State::kEscape || state_ == State::kHex) return push_string(c, out);
  if (state_ != State::kScalar) return push_structure(c, out);
  if (is_scalar_byte(c)) {
    scalar_ += c;
    return scalar_.size() > kLongestScalar ? Step::kWrong : Step::kMore;
  }
  if (!end_scalar(out)) return Step::kWrong;
  if (open_.empty()) return Step::kPast;
  state_ = State::kAfter;
  return push_structure(c, out);
}

std::string JsonRepair::rest() const {
  return pending_ + (state_ == State::kScalar ? scalar_ : "") + (state_ == State::kEscape ? "\\" : "");
}

JsonRepair::Step JsonRepair::push_string(char c, std::string& out) {
  const auto byte = static_cast<unsigned char>(c);
  if (state_ == State::kEscape) {
    if (c == '\'') {
      out += c;
    } else if (c == 'u') {
      hex_ = 4;
      out += "\\u";
      state_ = State::kHex;
      return Step::kMore;
    } else if (std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos) {
      out += {'\\', c};
    } else {
      out += "\\\\";
      state_ = State::kString;
      return push_string(c, out);
    }
    state_ = State::kString;
  } else if (state_ == State::kHex) {
    if (std::isxdigit(byte) == 0) return Step::kWrong;
    out += c;
    if (--hex_ == 0) state_ = State::kString;
  } else if (c == '\\') {
    state_ = State::kEscape;
  } else if (c == '"') {
    out += c;
    return ended();
  } else if (byte < 0x20) {
    out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : fmt::format("\\u{:04x}", byte);
  } else {
    out += c;
  }
  return Step::kMore;
}

JsonRepair::Step JsonRepair::push_structure(char c, std::string& out) {
  if (is_json_space(c)) {
    if (!open_.empty()) (pending_.empty() ? out : pending_) += c;
    return Step::kMore;
  }
  const char closes = open_.empty() ? '\0' : open_.back() == '{' ? '}' : ']';
  switch (state_) {
    case State::kFirstElement:
    case State::kFirstKey:
      if (c == closes) return close(c, out);
      return state_ == State::kFirstKey && c != '"' ? Step::kWrong : begin_value(c, out);
    case State::kKey:  // after a comma
      if (c == closes) return close(c, out);
      return c != '"' ? Step::kWrong : begin_value(c, out);
    case State::kValue:
      if (c == closes && closes == ']') return close(c, out);
      return begin_value(c, out);
    case State::kColon:
      if (c != ':') return Step::kWrong;
      out += c;
      is_key_ = false;
      state_ = State::kValue;
      return Step::kMore;
    default:  // kAfter
      if (c == closes) return close(c, out);
      if (c != ',') return Step::kWrong;
      pending_ = c;
      is_key_ = closes == '}';
      state_ = is_key_ ? State::kKey : State::kValue;
      return Step::kMore;
  }
}

JsonRepair::Step JsonRepair::begin_value(char c, std::string& out) {
  out += pending_;
  pending_.clear();
  if (c == '"') {
    out += c;
    state_ = State::kString;
  } else if (c == '{' || c == '[') {
    if (open_.size() == kDeepestJson) return Step::kWrong;
    out += c;
    open_ += c;
    is_key_ = c == '{';
    state_ = c == '{' ? State::kFirstKey : State::kFirstElement;
  } else if (is_scalar_byte(c)) {
    scalar_ = c;
    state_ = State::kScalar;
  } else {
    return Step::kWrong;
  }
  return Step::kMore;
}

JsonRepair::Step JsonRepair::ended() {
  if (is_key_) {
    state_ = State::kColon;
    return Step::kMore;
  }
  state_ = State::kAfter;
  return open_.empty() ? Step::kEnded : Step::kMore;
}

JsonRepair::Step JsonRepair::close(char c, std::string& out) {
  if (!pending_.empty()) out.append(pending_, 1);  // without the comma
  pending_.clear();
  out += c;
  open_.pop_back();
  is_key_ = false;
  return ended();
}

bool JsonRepair::end_scalar(std::string& out) {
  if (scalar_ == "True") scalar_ = "true";
  if (scalar_ == "False") scalar_ = "false";
  if (scalar_ == "None") scalar_ = "null";
  if (!nlohmann::json::accept(scalar_)) return false;
  out += scalar_;
  return true;
}

}  // namespace gabbro::text
