// JSON of a model, checked and repaired byte by byte while it is generated.
#pragma once

#include <string>

namespace gabbro::text {

// Follows one JSON value. Valid JSON passes unchanged. Repaired: control characters within strings, unknown escapes,
// commas before a closing bracket, and True, False and None.
class JsonRepair {
 public:
  enum class Step {
    kMore,   // the value goes on
    kEnded,  // with this byte
    kPast,   // the value, a number or a word, ended before this byte
    kWrong   // not JSON; what came before was passed
  };
  // Appends the bytes that are certain to `out`. White space before the value is left out.
  Step push(char c, std::string& out);
  // Bytes that were pushed and are not certain yet, without the one that is wrong.
  std::string rest() const;

 private:
  enum class State { kValue, kFirstElement, kFirstKey, kKey, kColon, kString, kEscape, kHex, kScalar, kAfter };
  Step push_string(char c, std::string& out);
  Step push_structure(char c, std::string& out);
  Step begin_value(char c, std::string& out);
  Step ended();
  Step close(char c, std::string& out);
  bool end_scalar(std::string& out);

  State state_ = State::kValue;
  std::string open_;     // brackets that are open
  std::string pending_;  // a comma and white space, until an element follows
  std::string scalar_;
  int hex_ = 0;  // digits of \u that are missing
  bool is_key_ = false;
};

}  // namespace gabbro::text
