#include "src/text/models/sentencepiece_models.h"

#include <algorithm>
#include <cfloat>
#include <unordered_map>
#include <utility>

#include "src/text/models/best_path.h"
#include "src/text/models/string_table.h"
#include "src/text/pipeline/word_cutter.h"
#include "src/text/unicode/utf8.h"
#include "src/text/vocabulary.h"

namespace gabbro::text {
namespace {

bool has_type(const SentencePieceFile::Piece& piece, TokenType type) {
  return piece.type == static_cast<int32_t>(type);
}

// Pieces that text can become.
bool is_text(const SentencePieceFile::Piece& piece) {
  return has_type(piece, TokenType::kNormal) || has_type(piece, TokenType::kUserDefined) ||
         has_type(piece, TokenType::kUnused);
}

bool is_set(const std::vector<bool>& flags, int32_t token) {
  return static_cast<size_t>(token) < flags.size() && flags[static_cast<size_t>(token)];
}

class UnigramSentences final : public SentenceModel {
 public:
  UnigramSentences(const SentencePieceFile& file, const std::vector<bool>& structural)
      : file_(file), structural_(structural) {
    std::vector<std::pair<std::string_view, int32_t>> keys;
    float least = FLT_MAX;
    for (size_t i = 0; i < file.pieces.size(); ++i) {
      const SentencePieceFile::Piece& piece = file.pieces[i];
      if (is_text(piece)) keys.emplace_back(piece.text, static_cast<int32_t>(i));
      if (!has_type(piece, TokenType::kNormal)) continue;
      least = std::min(least, piece.score);
      most_ = std::max(most_, piece.score);
    }
    trie_ = DoubleArray(std::move(keys));
    constexpr float kUnknownPenalty = 10;
    unknown_score_ = least - kUnknownPenalty;
  }

  void encode(std::string_view text, bool plain, std::vector<SentencePart>& out) const override {
    BestPath<float> path;
    const auto get_score = [&](int32_t token, size_t length, float& score) {
      const SentencePieceFile::Piece& piece = file_.pieces[static_cast<size_t>(token)];
      if (has_type(piece, TokenType::kUnused) || (plain && is_set(structural_, token))) return false;
      // A symbol of the user is always worth more than its parts.
      constexpr float kMargin = 0.1F;
      score = has_type(piece, TokenType::kUserDefined) ? static_cast<float>(length) * most_ - kMargin : piece.score;
      return true;
    };
    for (const auto& part : path.find(text, trie_, kNoToken, unknown_score_, get_score))
      out.push_back({text.substr(part.begin, part.end - part.begin), part.token});
  }

 private:
  const SentencePieceFile& file_;
  std::vector<bool> structural_;
  DoubleArray trie_;
  float most_ = FLT_MIN, unknown_score_ = 0;
};

class BpeSentences final : public SentenceModel {
 public:
  BpeSentences(const SentencePieceFile& file, const SymbolMatcher& matcher, const std::vector<bool>& structural)
      : file_(file), matcher_(matcher), structural_(structural), table_(file.pieces.size()) {
    for (const SentencePieceFile::Piece& piece : file.pieces) {
      table_.add(is_text(piece) ? std::string_view(piece.text) : std::string_view());
      if (!is_text(piece)) continue;
      longest_ = std::max(longest_, piece.text.size());
      cutter_.learn(piece.text);
    }
  }

  void encode(std::string_view text, bool plain, std::vector<SentencePart>& out) const override {
    Work work;
    cutter_.for_each_word(text, [&](std::string_view word) { encode_word(word, plain, work, out); });
  }

 private:
  static constexpr int32_t kEnd = -1;
  struct Symbol {
    std::string_view text;
    int32_t before, after;
    bool frozen;  // a symbol of the user is not merged
  };
  struct Candidate {
    float score;
    int32_t left, right;
    size_t length;  // of both; if that has changed, the candidate is void
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  struct Work {
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> merged;  // into unused pieces
  };

  int32_t find(std::string_view text, bool plain) const {
    const int32_t token = table_.find(text);
    return token != kNoToken && plain && is_set(structural_, token) ? kNoToken : token;
  }

  void encode_word(std::string_view word, bool plain, Work& work, std::vector<SentencePart>& out) const {
    work.symbols.clear();
    work.heap.clear();
    work.merged.clear();
    for (size_t at = 0; at < word.size();) {
      const size_t symbol = matcher_.match(word.substr(at), plain);
      const size_t length = symbol > 0 ? symbol : std::min(utf8_length(word[at]), word.size() - at);
      const auto index = static_cast<int32_t>(work.symbols.size());
      work.symbols.push_back({word.substr(at, length), index - 1, index + 1, symbol > 0});
      at += length;
    }
    work.symbols.back().after = kEnd;
    const auto count = static_cast<int32_t>(work.symbols.size());
    for (int32_t i = 0; i + 1 < count; ++i) consider(i, i + 1, plain, work);
    merge(plain, work);
    for (int32_t i = 0; i != kEnd; i = work.symbols[static_cast<size_t>(i)].after)
      emit(work.symbols[static_cast<size_t>(i)].text, plain, work, out);
  }

  void merge(bool plain, Work& work) const {
    const auto symbol = [&](int32_t i) -> Symbol& { return work.symbols[static_cast<size_t>(i)]; };
    while (!work.heap.empty()) {
      const Candidate best = work.heap.front();
      std::pop_heap(work.heap.begin(), work.heap.end());
      work.heap.pop_back();
      Symbol &left = symbol(best.left), &right = symbol(best.right);
      if (left.text.empty() || right.text.empty() || left.text.size() + right.text.size() != best.length) continue;
      left.text = {left.text.data(), best.length};
      right.text = {};
      left.after = right.after;
      if (left.after != kEnd) symbol(left.after).before = best.left;
      if (left.before != kEnd) consider(left.before, best.left, plain, work);
      if (left.after != kEnd) consider(best.left, left.after, plain, work);
    }
  }

  void consider(int32_t left_index, int32_t right_index, bool plain, Work& work) const {
    const Symbol &left = work.symbols[static_cast<size_t>(left_index)],
                 &right = work.symbols[static_cast<size_t>(right_index)];
    const size_t length = left.text.size() + right.text.size();
    if (left.frozen || right.frozen || length > longest_) return;
    const std::string_view joined(left.text.data(), length);
    const int32_t token = find(joined, plain);
    if (token == kNoToken) return;
    const SentencePieceFile::Piece& piece = file_.pieces[static_cast<size_t>(token)];
    work.heap.push_back({piece.score, left_index, right_index, length});
    std::push_heap(work.heap.begin(), work.heap.end());
    if (has_type(piece, TokenType::kUnused)) work.merged[joined] = {left.text, right.text};
  }

  // An unused piece comes apart again into what it was made of.
  void emit(std::string_view text, bool plain, const Work& work, std::vector<SentencePart>& out) const {
    std::vector<std::string_view> open = {text};
    while (!open.empty()) {
      const std::string_view part = open.back();
      open.pop_back();
      const int32_t token = find(part, plain);
      if (token != kNoToken && has_type(file_.pieces[static_cast<size_t>(token)], TokenType::kUnused)) {
        if (const auto made = work.merged.find(part); made != work.merged.end()) {
          open.push_back(made->second.second);
          open.push_back(made->second.first);
          continue;
        }
      }
      out.push_back({part, token});
    }
  }

  const SentencePieceFile& file_;
  const SymbolMatcher& matcher_;
  std::vector<bool> structural_;
  StringTable table_;
  WordCutter cutter_;
  size_t longest_ = 0;  // bytes of the longest piece
};

}  // namespace

SymbolMatcher::SymbolMatcher(const SentencePieceFile& file, const std::vector<bool>& structural)
    : structural_(structural) {
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t i = 0; i < file.pieces.size(); ++i) {
    if (has_type(file.pieces[i], TokenType::kUserDefined))
      keys.emplace_back(file.pieces[i].text, static_cast<int32_t>(i));
  }
  empty_ = keys.empty();
  trie_ = DoubleArray(std::move(keys));
}

size_t SymbolMatcher::match(std::string_view text, bool plain) const {
  size_t longest = 0;
  if (empty_) return longest;
  uint32_t node = DoubleArray::kRoot;
  for (size_t end = 0; end < text.size() && trie_.step(node, static_cast<uint8_t>(text[end])); ++end) {
    const int32_t token = trie_.value(node);
    if (token >= 0 && !(plain && is_set(structural_, token))) longest = end + 1;
  }
  return longest;
}

std::unique_ptr<const SentenceModel> make_sentence_model(const SentencePieceFile& file, const SymbolMatcher& matcher,
                                                         const std::vector<bool>& structural) {
  if (file.kind == SentencePieceFile::Kind::kUnigram) return std::make_unique<UnigramSentences>(file, structural);
  return std::make_unique<BpeSentences>(file, matcher, structural);
}

}  // namespace gabbro::text
