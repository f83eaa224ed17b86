#include "src/text/regex/simple_pattern.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/text/regex/pattern_parser.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

constexpr size_t kNoMatch = SIZE_MAX;
constexpr size_t kGaveUp = SIZE_MAX - 1;  // the steps are used up

// The character of well-formed text at text[at], which may be any byte.
uint32_t decode_character(std::string_view text, size_t at, size_t& length) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  length = std::min(utf8_length(text[at]), text.size() - at);
  if (length == 2) return (byte(0) & 0x1FU) << 6 | (byte(1) & 0x3FU);
  if (length == 3) return (byte(0) & 0x0FU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
  if (length == 4)
    return (byte(0) & 0x07U) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 | (byte(3) & 0x3FU);
  return byte(0);
}

bool continues_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace

// Makes nodes of a parsed pattern, from its end to its beginning: a node comes after those that follow it in a match.
class PatternLinker {
 public:
  explicit PatternLinker(SimplePattern& pattern) : pattern_(pattern) { add({}); }

  static constexpr uint32_t kAcceptNode = 0;

  // The first node of a sequence before `next`.
  uint32_t link(const PatternItem::Sequence& sequence, uint32_t next) {
    for (auto item = sequence.rbegin(); item != sequence.rend(); ++item) next = link(*item, next);
    return next;
  }
  bool fits() const {
    return pattern_.nodes_.size() <= SimplePattern::kMostNodes && pattern_.sets_.size() <= SimplePattern::kMostSets;
  }

 private:
  using Kind = SimplePattern::Kind;

  uint32_t link(const PatternItem& item, uint32_t next) {
    if (!fits()) return next;
    SimplePattern::Node node;
    if (item.kind == PatternItem::Kind::kGroup) {
      node.kind = Kind::kChoice;
      for (const auto& sequence : item.alternatives) node.options.push_back(link(sequence, next));
      if (item.min == 0) node.options.push_back(next);
      return add(std::move(node));
    }
    node.kind = item.kind == PatternItem::Kind::kRun     ? Kind::kRun
                : item.kind == PatternItem::Kind::kAhead ? Kind::kAhead
                                                         : Kind::kNotAhead;
    node.set = find_or_add(item.set);
    node.possessive = item.possessive;
    node.min = item.min, node.max = item.max;
    node.next = next;
    return add(std::move(node));
  }
  uint32_t add(SimplePattern::Node node) {
    pattern_.nodes_.push_back(std::move(node));
    return static_cast<uint32_t>(pattern_.nodes_.size() - 1);
  }
  uint8_t find_or_add(const CharacterSet& set) {
    const auto found = std::find(pattern_.sets_.begin(), pattern_.sets_.end(), set);
    const auto index = found - pattern_.sets_.begin();
    if (found == pattern_.sets_.end()) pattern_.sets_.push_back(set);
    return static_cast<uint8_t>(index);
  }

  SimplePattern& pattern_;
};

std::optional<SimplePattern> SimplePattern::compile(std::string_view text) {
  const auto alternatives = parse_simple_pattern(text);
  if (!alternatives || alternatives->size() > kMostOptions) return std::nullopt;
  SimplePattern pattern;
  PatternLinker linker(pattern);
  for (const auto& sequence : *alternatives)
    pattern.options_.push_back(linker.link(sequence, PatternLinker::kAcceptNode));
  if (!linker.fits() || !pattern.index()) return std::nullopt;
  return pattern;
}

// False where the pattern matches empty text.
bool SimplePattern::index() {
  std::vector<uint64_t> least(nodes_.size());  // characters that a match from a node on has
  std::vector<First> firsts(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    First& first = firsts[i];
    if (node.kind == Kind::kAccept) {
      first.add_all();
    } else if (node.kind == Kind::kChoice) {
      least[i] = UINT64_MAX;
      for (const uint32_t option : node.options) {
        least[i] = std::min(least[i], least[option]);
        first.add(firsts[option]);
      }
    } else if (node.kind == Kind::kRun) {
      least[i] = least[node.next] + node.min;
      first.add(sets_[node.set]);
      if (node.min == 0) first.add(firsts[node.next]);
    } else {
      least[i] = least[node.next];
      first.add(firsts[node.next]);
    }
  }
  for (size_t i = 0; i < options_.size(); ++i) {
    if (least[options_[i]] == 0) return false;
    const First& first = firsts[options_[i]];
    for (size_t c = 0; c < first.ascii.size(); ++c) ascii_options_[c] |= uint32_t{first.ascii[c]} << i;
    for (size_t c = 0; c < kCategories; ++c) category_options_[c] |= uint32_t{first.categories[c]} << i;
  }
  index_sets();
  return true;
}

void SimplePattern::index_sets() {
  for (size_t i = 0; i < sets_.size(); ++i) {
    for (uint32_t c = 0; c < CharacterSet::kAscii; ++c) ascii_sets_[c] |= uint32_t{sets_[i].has_ascii(c)} << i;
    if (!sets_[i].is_by_category()) {
      sets_by_range_ |= uint32_t{1} << i;
      continue;
    }
    for (size_t c = 0; c < kCategories; ++c)
      category_sets_[c] |= uint32_t{sets_[i].may_have(static_cast<Category>(c))} << i;
  }
}

void SimplePattern::First::add_all() {
  ascii.fill(true);
  categories.fill(true);
}

void SimplePattern::First::add(const First& other) {
  for (size_t c = 0; c < ascii.size(); ++c) ascii[c] = ascii[c] || other.ascii[c];
  for (size_t c = 0; c < kCategories; ++c) categories[c] = categories[c] || other.categories[c];
}

void SimplePattern::First::add(const CharacterSet& set) {
  for (uint32_t c = 0; c < ascii.size(); ++c) ascii[c] = ascii[c] || set.has_ascii(c);
  for (size_t c = 0; c < kCategories; ++c) categories[c] = categories[c] || set.may_have(static_cast<Category>(c));
}

// The text of one search, and the steps that are left.
struct SimplePattern::Reader {
  std::string_view text;
  uint64_t steps;  // that are left
  const CategoryTable& categories = CategoryTable::get();
};

SimplePattern::Outcome SimplePattern::find(std::string_view subject, size_t start, uint64_t steps, Match& match) const {
  Reader reader{subject, steps};
  for (size_t at = start; at < subject.size();) {
    const auto byte = static_cast<uint8_t>(subject[at]);
    size_t length = 1;
    uint32_t options = ascii_options_[byte];
    if (byte >= CharacterSet::kAscii) {
      const auto category = reader.categories.find(decode_character(subject, at, length));
      options = category_options_[static_cast<size_t>(category)];
    }
    for (; options != 0; options &= options - 1) {
      const size_t end = match_from(options_[static_cast<size_t>(std::countr_zero(options))], at, reader);
      if (end == kGaveUp) return Outcome::kTooManySteps;
      if (end == kNoMatch) continue;
      match = {at, end};
      return Outcome::kFound;
    }
    at += length;
  }
  return Outcome::kNone;
}

// The end of the match from `index` on, or kNoMatch, or kGaveUp.
size_t SimplePattern::match_from(uint32_t index, size_t at, Reader& reader) const {
  for (;; index = nodes_[index].next) {
    const Node& node = nodes_[index];
    if (reader.steps == 0) return kGaveUp;
    --reader.steps;
    if (node.kind == Kind::kAccept) return at;
    if (node.kind == Kind::kChoice) {
      for (const uint32_t option : node.options) {
        const size_t end = match_from(option, at, reader);
        if (end != kNoMatch) return end;
      }
      return kNoMatch;
    }
    if (node.kind != Kind::kRun) {
      if (has(node.set, at, reader) != (node.kind == Kind::kAhead)) return kNoMatch;
      continue;
    }
    size_t least = at;  // the end of the fewest characters
    const size_t most = run_end(node, at, least, reader);
    if (most == kNoMatch || node.next == PatternLinker::kAcceptNode) return most;
    at = most;
    while (at > least && !node.possessive) {
      if (may_begin(nodes_[node.next], at, reader)) {
        const size_t end = match_from(node.next, at, reader);
        if (end != kNoMatch) return end;
      }
      do --at;
      while (at > least && continues_character(reader.text[at]));
    }
  }
}

// The end of as many characters of the node's set as there are at `at`; kNoMatch where they are too few.
size_t SimplePattern::run_end(const Node& node, size_t at, size_t& least, Reader& reader) const {
  const uint32_t bit = uint32_t{1} << node.set;
  const std::string_view text = reader.text;
  const size_t begin = at;
  uint32_t count = 0;
  while (count < node.max && at < text.size()) {
    if (count == node.min) least = at;
    const auto byte = static_cast<uint8_t>(text[at]);
    size_t length = 1;
    if ((ascii_sets_[byte] & bit) == 0) {
      if (byte < CharacterSet::kAscii || !contains(node.set, decode_character(text, at, length), reader)) break;
    } else if (node.max == kNoLimit && count >= node.min) {
      while (at + 1 < text.size() && (ascii_sets_[static_cast<uint8_t>(text[at + 1])] & bit) != 0) ++at;
    }
    at += length;
    ++count;
  }
  reader.steps -= std::min<uint64_t>(reader.steps, at - begin);
  if (count <= node.min) least = at;
  return count < node.min ? kNoMatch : at;
}

bool SimplePattern::contains(uint8_t set, uint32_t c, const Reader& reader) const {
  const Category category = reader.categories.find(c);
  if ((sets_by_range_ >> set & 1) != 0) return sets_[set].contains(c, category);
  return (category_sets_[static_cast<size_t>(category)] >> set & 1) != 0;
}

// Whether the character at `at`, if there is one, is of a set.
bool SimplePattern::has(uint8_t set, size_t at, const Reader& reader) const {
  if (at >= reader.text.size()) return false;
  const auto byte = static_cast<uint8_t>(reader.text[at]);
  if (byte < CharacterSet::kAscii) return (ascii_sets_[byte] >> set & 1) != 0;
  size_t length = 0;
  return contains(set, decode_character(reader.text, at, length), reader);
}

bool SimplePattern::may_begin(const Node& node, size_t at, const Reader& reader) const {
  return node.kind != Kind::kRun || node.min == 0 || has(node.set, at, reader);
}

}  // namespace gabbro::text
