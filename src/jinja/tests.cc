// The tests of `is`.
#include <algorithm>
#include <cmath>

#include "src/jinja/library.h"
#include "src/jinja/objects.h"
#include "src/jinja/operators.h"
#include "src/jinja/parser.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

const Value& only(Runtime& runtime, const Args& args) {
  if (args.positional.size() != 1 || !args.named.empty()) throw runtime.error("the test takes one argument");
  return args.positional[0];
}

bool remainder_is(Runtime& runtime, const Value& value, const Value& divisor, int expected) {
  return equal(runtime, arithmetic(runtime, Arithmetic::kModulo, value, divisor), expected);
}

// str.islower and str.isupper: at least one cased letter, and none of the other case.
bool has_only_case(Runtime& runtime, const Value& value, bool lower) {
  const std::string text = to_text(runtime, value).bytes();
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, &at);
    if (is_title(c) || (lower ? is_upper(c) : is_lower(c))) return false;
    found = found || (lower ? is_lower(c) : is_upper(c));
  }
  return found;
}

bool is_sequence(const Value& value) {
  if (value.kind() == Kind::kObject) return value.type_name() == "range";
  return value.is_sequence() || value.is_string() || value.is_dict() || value.is_undefined();
}

template <Kind kind>
bool is_kind(Runtime&, const Value& value, const Args&) {
  return value.kind() == kind;
}

template <Order order>
bool compares(Runtime& runtime, const Value& value, const Args& args) {
  return ordered(runtime, order, value, only(runtime, args));
}

bool is_equal(Runtime& runtime, const Value& value, const Args& args) {
  return equal(runtime, value, only(runtime, args));
}

bool is_not_equal(Runtime& runtime, const Value& value, const Args& args) {
  return !equal(runtime, value, only(runtime, args));
}

bool is_filter_name(Runtime& runtime, const Value& value, const Args&) {
  hash_key(runtime, value);  // Jinja looks the value up in a dict, which fails for a list
  return value.is_string() && has_filter(value.string());
}

bool is_test_name(Runtime& runtime, const Value& value, const Args&) {
  hash_key(runtime, value);
  return value.is_string() && has_test(value.string());
}

struct TestEntry {
  std::string_view name;
  TestFunction function;
};

constexpr TestEntry kTests[] = {
    {"odd", [](Runtime& r, const Value& v, const Args&) { return remainder_is(r, v, 2, 1); }},
    {"even", [](Runtime& r, const Value& v, const Args&) { return remainder_is(r, v, 2, 0); }},
    {"divisibleby", [](Runtime& r, const Value& v, const Args& a) { return remainder_is(r, v, only(r, a), 0); }},
    {"defined", [](Runtime&, const Value& v, const Args&) { return !v.is_undefined(); }},
    {"undefined", is_kind<Kind::kUndefined>},
    {"filter", is_filter_name},
    {"test", is_test_name},
    {"none", is_kind<Kind::kNone>},
    {"boolean", is_kind<Kind::kBool>},
    {"false", [](Runtime&, const Value& v, const Args&) { return v.kind() == Kind::kBool && !v.boolean(); }},
    {"true", [](Runtime&, const Value& v, const Args&) { return v.kind() == Kind::kBool && v.boolean(); }},
    {"integer",
     [](Runtime&, const Value& v, const Args&) { return v.kind() == Kind::kInt || v.as<LargeInteger>() != nullptr; }},
    {"float", is_kind<Kind::kFloat>},
    {"lower", [](Runtime& r, const Value& v, const Args&) { return has_only_case(r, v, true); }},
    {"upper", [](Runtime& r, const Value& v, const Args&) { return has_only_case(r, v, false); }},
    {"string", is_kind<Kind::kString>},
    {"mapping", is_kind<Kind::kDict>},
    {"number", [](Runtime&, const Value& v, const Args&) { return v.is_number() || v.as<LargeInteger>() != nullptr; }},
    {"sequence", [](Runtime&, const Value& v, const Args&) { return is_sequence(v); }},
    {"iterable", [](Runtime& r, const Value& v, const Args&) { return try_iterate(r, v) != nullptr; }},
    {"callable", [](Runtime&, const Value& v, const Args&) { return is_callable(v); }},
    {"sameas", [](Runtime& r, const Value& v, const Args& a) { return v.same_as(only(r, a)); }},
    {"escaped", [](Runtime&, const Value& v, const Args&) { return v.is_markup(); }},
    {"in", [](Runtime& r, const Value& v, const Args& a) { return contains(r, only(r, a), v); }},
    {"==", is_equal},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"!=", is_not_equal},
    {"ne", is_not_equal},
    {">", compares<Order::kGreater>},
    {"gt", compares<Order::kGreater>},
    {"greaterthan", compares<Order::kGreater>},
    {">=", compares<Order::kGreaterEqual>},
    {"ge", compares<Order::kGreaterEqual>},
    {"<", compares<Order::kLess>},
    {"lt", compares<Order::kLess>},
    {"lessthan", compares<Order::kLess>},
    {"<=", compares<Order::kLessEqual>},
    {"le", compares<Order::kLessEqual>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const TestEntry& e) { return e.name == name; });
  return found == std::end(kTests) ? nullptr : found->function;
}

bool has_test(std::string_view name) { return find_test(name) != nullptr; }

}  // namespace gabbro::jinja
