#include "src/text/pipeline/added_tokens.h"

#include <algorithm>
#include <utility>

#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

Character character_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return read_utf8(text, at);
}

size_t spaces_begin(std::string_view text, size_t end, size_t least) {
  while (end > least) {
    const Character before = character_before(text, end);
    if (!is_white_space(before.code_point) || before.length > end - least) break;
    end -= before.length;
  }
  return end;
}

size_t spaces_end(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Character next = read_utf8(text, begin);
    if (!is_white_space(next.code_point)) break;
    begin += next.length;
  }
  return begin;
}

bool is_single_word(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !is_word_character(character_before(text, begin).code_point)) &&
         (end == text.size() || !is_word_character(read_utf8(text, end).code_point));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer) : tokens_(std::move(tokens)) {
  for (AddedToken& token : tokens_) {
    NormalizedText spelling{token.content};
    if (token.normalized && normalizer != nullptr) normalizer->normalize(spelling);
    token.spelling = std::move(spelling.text);
  }
  raw_ = make_finder([](const AddedToken& token) { return !token.normalized; }, &AddedToken::content);
  normalized_ = make_finder([](const AddedToken& token) { return token.normalized; }, &AddedToken::spelling);
  marked_ = make_finder([](const AddedToken& token) { return !token.normalized || token.special || token.structural; },
                        &AddedToken::content);
}

AddedTokens::Finder AddedTokens::make_finder(bool (*wanted)(const AddedToken&), std::string AddedToken::*text) const {
  Finder finder;
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& key = tokens_[i].*text;
    if (!wanted(tokens_[i]) || key.empty()) continue;
    keys.emplace_back(key, static_cast<int32_t>(i));
    finder.first[static_cast<uint8_t>(key[0])] = true;
  }
  finder.empty = keys.empty();
  finder.trie = DoubleArray(std::move(keys));
  return finder;
}

template <class GetLimits>
std::vector<Fragment> AddedTokens::split(std::string_view text, const Finder& finder, GetLimits get_limits) const {
  std::vector<Fragment> fragments;
  size_t done = 0;
  for (size_t at = 0; !finder.empty && at < text.size();) {
    if (!finder.first[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const Limits limits = get_limits(at);
    const AddedToken* best = nullptr;
    size_t best_end = at;
    uint32_t node = DoubleArray::kRoot;
    for (size_t end = at; end < text.size() && finder.trie.step(node, static_cast<uint8_t>(text[end]));) {
      const int32_t index = finder.trie.value(node);
      ++end;
      if (index < 0) continue;
      const AddedToken& token = tokens_[static_cast<size_t>(index)];
      const size_t limit = token.special ? limits.special : token.structural ? limits.structural : limits.plain;
      if (end - at > limit) continue;
      best = &token;
      best_end = end;
    }
    if (best == nullptr) {
      ++at;
      continue;
    }
    const size_t match = std::exchange(at, best_end);
    if (best->single_word && !is_single_word(text, match, best_end)) continue;
    const size_t begin = best->lstrip && match > done ? spaces_begin(text, match, done) : match;
    const size_t end = best->rstrip ? spaces_end(text, best_end) : best_end;
    if (begin > done) fragments.push_back({text.substr(done, begin - done)});
    fragments.push_back({{}, best->id});
    done = end;
  }
  if (done < text.size()) fragments.push_back({text.substr(done)});
  return fragments;
}

std::vector<Fragment> AddedTokens::split(std::string_view text, Scope scope) const {
  const Limits limits{text.size(), text.size(), scope == Scope::kAll ? text.size() : 0};
  return split(text, raw_, [&](size_t) { return limits; });
}

std::vector<Fragment> AddedTokens::split_marked(std::string_view text, Scope scope,
                                                std::span<const jinja::InputSpan> input) const {
  auto span = input.begin();
  return split(text, marked_, [&](size_t at) {
    while (span != input.end() && span->end <= at) ++span;
    const size_t input_begin = span == input.end() ? text.size() : std::max(span->begin, at);
    const size_t written = input_begin - at;  // bytes from here on that are not input
    return Limits{text.size(), written, scope == Scope::kAll ? written : 0};
  });
}

std::vector<Fragment> AddedTokens::split_normalized(std::string_view text, Scope scope, bool marked) const {
  const size_t all = text.size(), structural = marked ? 0 : all;
  const Limits limits{all, structural, scope == Scope::kAll ? structural : 0};
  return split(text, normalized_, [&](size_t) { return limits; });
}

}  // namespace gabbro::text
