#include "src/text/grammar/json/number.h"

#include <algorithm>

#include "src/base/error.h"

namespace gabbro::text::grammar {
namespace {

constexpr uint64_t kLargestMultiple = 2000;  // states of the automaton that divides
constexpr size_t kMostWholeDigits = 19, kMostFractionDigits = 17;
constexpr int32_t kMostExponentDigits = 3;

Pattern choice_of(std::vector<Pattern> parts) { return {.kind = Pattern::Kind::kChoice, .parts = std::move(parts)}; }
Pattern sequence_of(std::vector<Pattern> parts) {
  return {.kind = Pattern::Kind::kSequence, .parts = std::move(parts)};
}
Pattern one_digit(char first, char last) {
  return {.kind = Pattern::Kind::kSet, .set = {{static_cast<uint32_t>(first), static_cast<uint32_t>(last)}}};
}
Pattern digits(int32_t least, int32_t most) { return repeat_pattern(one_digit('0', '9'), least, most); }
Pattern text_of(std::string_view text) {
  Pattern sequence;
  for (const char c : text) sequence.parts.push_back(one_digit(c, c));
  return sequence;
}
Pattern any_fraction() { return repeat_pattern(sequence_of({text_of("."), digits(1, kUnbounded)}), 0, 1); }

// Digits after the point: the number is larger than 0.f, or equal.
Pattern fraction_from(const std::string& f, bool exclusive) {
  const Pattern positive = sequence_of({digits(0, kUnbounded), one_digit('1', '9'), digits(0, kUnbounded)});
  if (f.empty()) return exclusive ? sequence_of({text_of("."), positive}) : any_fraction();
  std::vector<Pattern> found{sequence_of({text_of(f), exclusive ? positive : digits(0, kUnbounded)})};
  for (size_t i = 0; i < f.size(); ++i) {
    if (f[i] == '9') continue;
    found.push_back(
        sequence_of({text_of(f.substr(0, i)), one_digit(static_cast<char>(f[i] + 1), '9'), digits(0, kUnbounded)}));
  }
  return sequence_of({text_of("."), choice_of(std::move(found))});
}

Pattern fraction_to(const std::string& f, bool exclusive) {
  std::vector<Pattern> found;
  if (!f.empty() || !exclusive) found.emplace_back();  // no digits
  if (!exclusive) {
    found.push_back(
        sequence_of({text_of("." + f), repeat_pattern(one_digit('0', '0'), f.empty() ? 1 : 0, kUnbounded)}));
  }
  for (size_t i = 0; i < f.size(); ++i) {
    const std::string before = "." + f.substr(0, i);
    if (i > 0) found.push_back(text_of(before));
    if (f[i] == '0') continue;
    found.push_back(sequence_of({text_of(before), one_digit('0', static_cast<char>(f[i] - 1)), digits(0, kUnbounded)}));
  }
  return choice_of(std::move(found));
}

// Numbers of as many digits as both have, from `a` to `b`.
Pattern between(const std::string& a, const std::string& b) {
  if (a.empty()) return {};
  if (a.find_first_not_of('0') == a.npos && b.find_first_not_of('9') == b.npos) {
    const auto length = static_cast<int32_t>(a.size());
    return digits(length, length);
  }
  const std::string a_rest = a.substr(1), b_rest = b.substr(1);
  const auto rest = static_cast<int32_t>(a_rest.size());
  if (a[0] == b[0]) return sequence_of({one_digit(a[0], a[0]), between(a_rest, b_rest)});
  std::vector<Pattern> found{sequence_of({one_digit(a[0], a[0]), between(a_rest, std::string(a_rest.size(), '9'))}),
                             sequence_of({one_digit(b[0], b[0]), between(std::string(b_rest.size(), '0'), b_rest)})};
  if (b[0] - a[0] > 1) {
    found.push_back(
        sequence_of({one_digit(static_cast<char>(a[0] + 1), static_cast<char>(b[0] - 1)), digits(rest, rest)}));
  }
  return choice_of(std::move(found));
}

bool is_less(const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

// Whole numbers from `a` to `b`; without `b`: from `a` on.
Pattern whole_from_to(const std::string& a, const std::optional<std::string>& b) {
  if (b && is_less(*b, a)) return choice_of({});
  if (b && a.size() == b->size()) return between(a, *b);
  const auto length = static_cast<int32_t>(a.size());
  std::vector<Pattern> found{between(a, std::string(a.size(), '9'))};
  if (!b) {
    found.push_back(sequence_of({one_digit('1', '9'), digits(length, kUnbounded)}));
  } else {
    const auto last = static_cast<int32_t>(b->size());
    if (last - length > 1) found.push_back(sequence_of({one_digit('1', '9'), digits(length, last - 2)}));
    found.push_back(between("1" + std::string(b->size() - 1, '0'), *b));
  }
  return choice_of(std::move(found));
}

std::string plus_one(std::string number) {
  for (size_t i = number.size(); i-- > 0;) {
    if (number[i] != '9') {
      ++number[i];
      return number;
    }
    number[i] = '0';
  }
  return "1" + number;
}

std::string minus_one(std::string number) {  // of a positive one
  size_t i = number.size() - 1;
  for (; number[i] == '0'; --i) number[i] = '9';
  --number[i];
  if (number.size() > 1 && number[0] == '0') number.erase(0, 1);
  return number;
}

// Numbers without a sign.
CharDfa at_least(const Rules& rules, const Bound& bound, bool integer) {
  const Decimal& value = bound.value;
  const bool itself = integer && value.is_whole() && !bound.exclusive;
  std::vector<Pattern> found;
  if (!integer) found.push_back(sequence_of({text_of(value.whole), fraction_from(value.fraction, bound.exclusive)}));
  Pattern larger = whole_from_to(itself ? value.whole : plus_one(value.whole), std::nullopt);
  found.push_back(integer ? std::move(larger) : sequence_of({std::move(larger), any_fraction()}));
  return CharDfa::of_pattern(rules, choice_of(std::move(found)));
}

CharDfa at_most(const Rules& rules, const Bound& bound, bool integer) {
  const Decimal& value = bound.value;
  const bool itself = integer && !(value.is_whole() && bound.exclusive);
  std::vector<Pattern> found;
  if (!integer) found.push_back(sequence_of({text_of(value.whole), fraction_to(value.fraction, bound.exclusive)}));
  if (itself || value.whole != "0") {
    Pattern smaller = whole_from_to("0", itself ? value.whole : minus_one(value.whole));
    found.push_back(integer ? std::move(smaller) : sequence_of({std::move(smaller), any_fraction()}));
  }
  return CharDfa::of_pattern(rules, choice_of(std::move(found)));
}

// Decimals without a sign that are multiples of n / 10^places: states hold the remainder and the digits after the
// point.
CharDfa multiples(const Rules& rules, const Decimal& of, bool integer) {
  const std::string digits_of = of.whole + of.fraction;
  const size_t places = of.fraction.size();
  uint64_t n = 0;
  for (const char c : digits_of) {
    n = n * 10 + static_cast<uint64_t>(c - '0');
    if (n * (places + 2) > kLargestMultiple) break;
  }
  if (n * (places + 2) > kLargestMultiple)
    throw bad_input("multipleOf: {}.{} needs too large an automaton", of.whole,
                    of.fraction.empty() ? "0" : of.fraction);
  // State (p, r): p = 0 before the point, 1 right after it, 1 + k after k digits; r is the remainder.
  std::vector<CharDfa::State> states;
  const auto number = [&](size_t p, uint64_t r) { return static_cast<uint32_t>(p * n + r); };
  for (size_t p = 0; p < places + 2; ++p) {
    for (uint64_t r = 0; r < n; ++r) {
      CharDfa::State state;
      uint64_t scaled = r;
      for (size_t i = p == 0 ? 0 : p - 1; i < places; ++i) scaled = scaled * 10 % n;
      state.accepts = scaled == 0 && p != 1;
      if (p == 0 && !integer) state.edges.push_back({'.', '.', number(1, r)});
      for (uint32_t d = 0; d < 10 && p < places + 1; ++d)
        state.edges.push_back({'0' + d, '0' + d, number(p == 0 ? 0 : p + 1, (r * 10 + d) % n)});
      if (p == places + 1) state.edges.push_back({'0', '0', number(p, r)});  // zeros after the last digit that counts
      states.push_back(std::move(state));
    }
  }
  rules.check_time();
  return CharDfa::of_states(std::move(states));
}

}  // namespace

Decimal decimal_of(const nlohmann::ordered_json& number) {
  std::string text = number.dump();
  Decimal result;
  if (text.front() == '-') {
    result.negative = true;
    text.erase(0, 1);
  }
  int exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != text.npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  std::string fraction;
  if (const size_t point = text.find('.'); point != text.npos) {
    fraction = text.substr(point + 1);
    text.resize(point);
  }
  for (; exponent > 0; --exponent) {
    text += fraction.empty() ? '0' : fraction.front();
    if (!fraction.empty()) fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    fraction.insert(fraction.begin(), text.empty() ? '0' : text.back());
    if (!text.empty()) text.pop_back();
  }
  text.erase(0, text.find_first_not_of('0'));
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  result.whole = text.empty() ? "0" : text;
  result.fraction = fraction;
  if (result.is_zero()) result.negative = false;
  return result;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int sign = a.negative ? -1 : 1;
  if (a.whole != b.whole) return is_less(a.whole, b.whole) ? -sign : sign;
  return a.fraction == b.fraction ? 0 : a.fraction < b.fraction ? -sign : sign;
}

namespace {

// Numbers without a sign and an exponent, with 19 digits, which fit in 64 bits, or one more than the bounds have:
// models may write digits without end. With multiples, whose automata are large, any number of digits.
Pattern plain_number(const NumberRange& range) {
  const bool is_free = !range.multiples_of.empty();
  size_t whole_digits = kMostWholeDigits, fraction_digits = kMostFractionDigits;
  for (const std::optional<Bound>& bound : {range.least, range.most}) {
    if (!bound) continue;
    whole_digits = std::max(whole_digits, bound->value.whole.size() + 1);
    fraction_digits = std::max(fraction_digits, bound->value.fraction.size() + 1);
  }
  const auto most = [&](size_t count) { return is_free ? kUnbounded : static_cast<int32_t>(count); };
  const int32_t more = is_free ? kUnbounded : static_cast<int32_t>(whole_digits) - 1;
  Pattern whole = choice_of({text_of("0"), sequence_of({one_digit('1', '9'), digits(0, more)})});
  if (range.integer) return whole;
  Pattern fraction = sequence_of({text_of("."), digits(1, most(fraction_digits))});
  return sequence_of({std::move(whole), repeat_pattern(std::move(fraction), 0, 1)});
}

}  // namespace

ExprId number_expr(Rules& rules, const NumberRange& range) {
  const Pattern plain = plain_number(range);
  if (!range.least && !range.most && range.multiples_of.empty()) {
    Pattern all = sequence_of({repeat_pattern(text_of("-"), 0, 1), plain});
    if (!range.integer) {
      const Pattern sign{.kind = Pattern::Kind::kSet, .set = {{'+', '+'}, {'-', '-'}}};
      const Pattern e{.kind = Pattern::Kind::kSet, .set = {{'e', 'e'}, {'E', 'E'}}};
      all.parts.push_back(
          repeat_pattern(sequence_of({e, repeat_pattern(sign, 0, 1), digits(1, kMostExponentDigits)}), 0, 1));
    }
    return pattern_expr(rules, all, Encoding::kUtf8);
  }
  // Both signs apart, by their magnitudes: of negative ones the bounds change places.
  std::vector<ExprId> signs;
  for (const bool negative : {false, true}) {
    std::optional<Bound> low = negative ? range.most : range.least, high = negative ? range.least : range.most;
    if (negative) {
      for (std::optional<Bound>* const bound : {&low, &high}) {
        if (*bound && !(*bound)->value.is_zero()) (*bound)->value.negative = !(*bound)->value.negative;
      }
    }
    if (high && (high->value.negative || (high->value.is_zero() && (high->exclusive || negative)))) continue;
    CharDfa dfa = CharDfa::of_pattern(rules, plain);
    if (low && !low->value.negative) dfa = dfa.intersect(rules, at_least(rules, *low, range.integer));
    if (high) dfa = dfa.intersect(rules, at_most(rules, *high, range.integer));
    for (const Decimal& of : range.multiples_of) dfa = dfa.intersect(rules, multiples(rules, of, range.integer));
    const ExprId digits_expr = dfa.expr(rules, Encoding::kUtf8);
    signs.push_back(negative ? rules.sequence({rules.literal("-"), digits_expr}) : digits_expr);
  }
  return rules.choice(std::move(signs));
}

}  // namespace gabbro::text::grammar
