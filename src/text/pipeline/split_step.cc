#include "src/text/pipeline/split_step.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "src/base/error.h"
#include "src/text/models/byte_alphabet.h"
#include "src/text/pipeline/word_cutter.h"
#include "src/text/unicode/script_ranges.h"
#include "src/text/unicode/unicode.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior parse_behavior(const JsonNode& node) {
  constexpr std::pair<std::string_view, Behavior> kNames[] = {{"Removed", Behavior::kRemoved},
                                                              {"Isolated", Behavior::kIsolated},
                                                              {"MergedWithPrevious", Behavior::kMergedWithPrevious},
                                                              {"MergedWithNext", Behavior::kMergedWithNext},
                                                              {"Contiguous", Behavior::kContiguous}};
  for (const auto& [name, behavior] : kNames) {
    if (node.string() == name) return behavior;
  }
  throw bad_input("{}: behavior '{}' is not supported", node.path(), node.string());
}

// Takes a piece's matches and the text between them in order, and passes on what the behavior makes of them.
class Joiner {
 public:
  Joiner(const Piece& piece, Behavior behavior, bool invert, PieceSink& out)
      : piece_(piece), behavior_(behavior), invert_(invert), out_(out) {}

  void add(size_t begin, size_t end, bool match) {
    match = match != invert_;
    switch (behavior_) {
      case Behavior::kRemoved:
        if (!match) emit(begin, end);
        break;
      case Behavior::kIsolated:
        emit(begin, end);
        break;
      case Behavior::kContiguous:
        if (open_ && match == last_) {
          end_ = end;
        } else {
          restart(begin, end);
        }
        break;
      case Behavior::kMergedWithPrevious:
        if (open_ && match && !last_) {
          end_ = end;
        } else {
          restart(begin, end);
        }
        break;
      case Behavior::kMergedWithNext:  // a match belongs to what follows, unless that is a match too
        if (open_ && last_ && !match) {
          end_ = end;
        } else {
          restart(begin, end);
        }
        break;
    }
    last_ = match;
  }

  void finish() {
    if (open_) emit(begin_, end_);
  }

 private:
  void emit(size_t begin, size_t end) {
    if (begin < end)
      out_.take({piece_.text.substr(begin, end - begin), piece_.at_origin && begin == 0, piece_.as_bytes});
  }
  void restart(size_t begin, size_t end) {
    finish();
    open_ = true;
    begin_ = begin;
    end_ = end;
  }

  const Piece& piece_;
  Behavior behavior_;
  bool invert_;
  PieceSink& out_;
  bool open_ = false, last_ = false;
  size_t begin_ = 0, end_ = 0;
};

class RegexStep final : public SplitStep {
 public:
  RegexStep(TextPattern pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void split(const Piece& piece, PieceSink& out) const override {
    Joiner joiner(piece, behavior_, invert_, out);
    const auto add = [&](size_t begin, size_t end, bool match) { joiner.add(begin, end, match); };
    if (regex() != nullptr) {
      TextPattern::for_each(piece.text, out.matcher(), add);
    } else {
      pattern_.for_each(piece.text, add);
    }
    joiner.finish();
  }
  const Regex* regex() const override { return pattern_.regex(); }
  bool isolates_matches() const override { return regex() != nullptr && behavior_ == Behavior::kIsolated; }
  bool passes(std::string_view text) const override {
    return regex() == nullptr && !invert_ && text.find(pattern_.text()) == text.npos;
  }

 private:
  TextPattern pattern_;
  Behavior behavior_;
  bool invert_;
};

// Single characters that a predicate is true of.
class CharacterStep final : public SplitStep {
 public:
  using Predicate = bool (*)(uint32_t);
  CharacterStep(Predicate predicate, Behavior behavior) : predicate_(predicate), behavior_(behavior) {
    for (uint32_t c = 0; c < early_.size(); ++c) early_[c] = predicate(c);
  }

  void split(const Piece& piece, PieceSink& out) const override {
    Joiner joiner(piece, behavior_, false, out);
    size_t done = 0;
    for (size_t at = 0; at < piece.text.size();) {
      const Character character = read_utf8(piece.text, at);
      const size_t begin = std::exchange(at, at + character.length + character.broken);
      const uint32_t c = character.code_point;
      if (c < early_.size() ? !early_[c] : !predicate_(c)) continue;
      if (begin > done) joiner.add(done, begin, false);
      joiner.add(begin, at, true);
      done = at;
    }
    if (done < piece.text.size()) joiner.add(done, piece.text.size(), false);
    joiner.finish();
  }

  // Each such character begins a piece, or is none.
  size_t next_cut(std::string_view text, size_t from) const override {
    const bool cuts =
        behavior_ == Behavior::kRemoved || behavior_ == Behavior::kIsolated || behavior_ == Behavior::kMergedWithNext;
    for (size_t at = from; cuts && at < text.size(); at = next_character(text, at)) {
      const Character character = read_utf8(text, at);
      if (character.length > 0 && predicate_(character.code_point)) return at;
    }
    return text.npos;
  }

 private:
  Predicate predicate_;
  Behavior behavior_;
  std::array<bool, 0x180> early_{};  // of the first characters, those that spell bytes among them
};

enum class PrependScheme { kAlways, kFirst, kNever };

PrependScheme prepend_scheme(const JsonNode& node) {
  const auto named = node.find("prepend_scheme");
  const bool add = node.boolean_or("add_prefix_space", true);
  const std::string scheme = named ? named->string() : "always";
  if (scheme != "always" && scheme != "first" && scheme != "never")
    throw bad_input("{}: scheme '{}' is not supported", named->path(), scheme);
  if (!add && named && scheme != "never")
    throw bad_input("{}: prepend_scheme '{}' contradicts add_prefix_space", node.path(), scheme);
  return !add || scheme == "never" ? PrependScheme::kNever
         : scheme == "first"       ? PrependScheme::kFirst
                                   : PrependScheme::kAlways;
}

class MetaspaceStep final : public SplitStep {
 public:
  MetaspaceStep(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  void split(const Piece& piece, PieceSink& out) const override {
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 2 + replacement_.size());
    const bool begins = piece.text.starts_with(replacement_) || piece.text.starts_with(' ');
    const bool wanted = scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && piece.at_origin);
    if (wanted && !begins) text = replacement_;
    size_t done = 0;
    for (size_t at = piece.text.find(' '); at != piece.text.npos; at = piece.text.find(' ', done)) {
      text.append(piece.text, done, at - done).append(replacement_);
      done = at + 1;
    }
    text.append(piece.text, done);
    const Piece whole{out.keep(std::move(text)), piece.at_origin, piece.as_bytes};
    if (!split_) return out.take(whole);
    // Each replacement begins a piece.
    size_t begin = 0;
    for (size_t at = whole.text.find(replacement_, 1); at != whole.text.npos;
         at = whole.text.find(replacement_, at + 1)) {
      out.take({whole.text.substr(begin, at - begin), whole.at_origin && begin == 0, whole.as_bytes});
      begin = at;
    }
    out.take({whole.text.substr(begin), whole.at_origin && begin == 0, whole.as_bytes});
  }

  size_t next_cut(std::string_view text, size_t from) const override {
    return split_ ? text.find(' ', from) : text.npos;
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

// Runs of one script. A character of none belongs to the run before it, and at the beginning to no run.
class ScriptStep final : public SplitStep {
 public:
  void split(const Piece& piece, PieceSink& out) const override {
    size_t begin = std::string::npos;
    int16_t last = kNoScript;
    for (size_t at = 0; at < piece.text.size();) {
      const Character character = read_utf8(piece.text, at);
      const size_t here = std::exchange(at, at + character.length + character.broken);
      const int16_t script = script_of(character.code_point);
      if (script == kNoScript || script == last) continue;
      if (begin != std::string::npos)
        out.take({piece.text.substr(begin, here - begin), piece.at_origin && begin == 0, piece.as_bytes});
      begin = here;
      last = script;
    }
    if (begin != std::string::npos) out.take({piece.text.substr(begin), piece.at_origin && begin == 0, piece.as_bytes});
  }

 private:
  static constexpr int16_t kNoScript = -1;

  static int16_t script_of(uint32_t c) {
    const auto ranges = script_ranges();
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                        [](uint32_t point, const ScriptRange& range) { return point < range.first; });
    return after != ranges.begin() && c <= std::prev(after)->last ? std::prev(after)->script : kNoScript;
  }
};

class PrefixSpaceStep final : public SplitStep {
 public:
  void split(const Piece& piece, PieceSink& out) const override {
    if (piece.text.starts_with(' ')) return out.take(piece);
    out.take({out.keep(" " + std::string(piece.text)), piece.at_origin, piece.as_bytes});
  }
};

// Spells bytes as characters, or leaves that to the model.
class ByteStep final : public SplitStep {
 public:
  explicit ByteStep(bool spell) : spell_(spell) {}
  bool spells_bytes() const override { return spell_; }
  void split(const Piece& piece, PieceSink& out) const override {
    if (!spell_) return out.take({piece.text, piece.at_origin, true});
    std::string text;
    append_spelling(piece.text, text);
    out.take({out.keep(std::move(text)), piece.at_origin, false});
  }

 private:
  bool spell_;
};

class FixedLengthStep final : public SplitStep {
 public:
  explicit FixedLengthStep(size_t length) : length_(length) {}
  void split(const Piece& piece, PieceSink& out) const override {
    size_t begin = 0, count = 0;
    for (size_t at = 0; at < piece.text.size();) {
      at = next_character(piece.text, at);
      if (++count < length_ && at < piece.text.size()) continue;
      out.take({piece.text.substr(begin, at - begin), piece.at_origin && begin == 0, piece.as_bytes});
      begin = at;
      count = 0;
    }
  }

 private:
  size_t length_;
};

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void append_byte_level(const JsonNode& node, std::vector<std::unique_ptr<const SplitStep>>& steps) {
  if (node.at("add_prefix_space").boolean()) steps.push_back(std::make_unique<PrefixSpaceStep>());
  if (node.boolean_or("use_regex", true))
    steps.push_back(std::make_unique<RegexStep>(TextPattern(Regex(kGpt2)), Behavior::kIsolated, false));
  steps.push_back(std::make_unique<ByteStep>(true));
}

}  // namespace

void append_split_steps(const JsonNode& node, std::vector<std::unique_ptr<const SplitStep>>& steps) {
  const std::string& type = node.at("type").string();
  const auto add = [&](auto step) { steps.push_back(std::move(step)); };
  const auto regex = [](const char* pattern) { return TextPattern(Regex(pattern)); };
  if (type == "ByteLevel") return append_byte_level(node, steps);
  if (type == "Whitespace") {
    constexpr const char* kWords = R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+)"
                                   R"(|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\s]+)";
    return add(std::make_unique<RegexStep>(regex(kWords), Behavior::kRemoved, true));
  }
  if (type == "WhitespaceSplit") return add(std::make_unique<CharacterStep>(is_white_space, Behavior::kRemoved));
  if (type == "BertPreTokenizer") {
    add(std::make_unique<CharacterStep>(is_white_space, Behavior::kRemoved));
    return add(std::make_unique<CharacterStep>(is_punctuation, Behavior::kIsolated));
  }
  if (type == "Punctuation") {
    const auto behavior = node.find("behavior");
    return add(
        std::make_unique<CharacterStep>(is_punctuation, behavior ? parse_behavior(*behavior) : Behavior::kIsolated));
  }
  if (type == "Digits") {
    const bool individual = node.at("individual_digits").boolean();
    return add(std::make_unique<CharacterStep>(is_numeric, individual ? Behavior::kIsolated : Behavior::kContiguous));
  }
  if (type == "Metaspace") {
    const JsonNode replacement = node.at("replacement");
    const std::string& text = replacement.string();
    if (text.empty() || utf8_length(text[0]) != text.size())
      throw bad_input("{}: is not one character", replacement.path());
    return add(std::make_unique<MetaspaceStep>(text, prepend_scheme(node), node.boolean_or("split", true)));
  }
  if (type == "Split") {
    return add(std::make_unique<RegexStep>(make_pattern(node.at("pattern")), parse_behavior(node.at("behavior")),
                                           node.at("invert").boolean()));
  }
  if (type == "CharDelimiterSplit") {
    const JsonNode delimiter = node.at("delimiter");
    if (delimiter.string().empty()) throw bad_input("{}: is not one character", delimiter.path());
    return add(std::make_unique<RegexStep>(TextPattern(delimiter.string()), Behavior::kRemoved, false));
  }
  if (type == "UnicodeScripts") {
    return add(std::make_unique<ScriptStep>());
  }
  if (type == "FixedLength") {
    const auto length = node.find("length");
    return add(std::make_unique<FixedLengthStep>(static_cast<size_t>(length ? length->integer(1, 1 << 20) : 5)));
  }
  if (type == "Sequence") {
    for (const JsonNode& step : node.at("pretokenizers").elements()) append_split_steps(step, steps);
    return;
  }
  throw bad_input("{}.type: pre-tokenizer '{}' is not supported", node.path(), type);
}

void leave_bytes_to_model(std::vector<std::unique_ptr<const SplitStep>>& steps) {
  steps.back() = std::make_unique<ByteStep>(false);
}

}  // namespace gabbro::text
