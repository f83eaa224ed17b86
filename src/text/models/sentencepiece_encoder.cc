#include "src/text/models/sentencepiece_encoder.h"

#include <algorithm>

#include "src/text/unicode/utf8.h"

namespace gabbro::text {

// The text as a chain of symbols, each a stretch of it. Two neighbors that together spell a token may become one; the
// token with the highest score goes first, the leftmost of equals.
class SentencePieceEncoder::Merger {
 public:
  Merger(const Vocabulary& vocabulary, size_t longest) : vocabulary_(vocabulary), longest_(longest) {}

  void start(std::string_view text) {  // not empty
    text_ = text;
    symbols_.clear();
    for (size_t at = 0; at < text.size();) {
      const size_t length = std::min(utf8_length(text[at]), text.size() - at);
      symbols_.push_back({at, length, count() - 1, count() + 1, kUnknown});
      at += length;
    }
    symbols_.back().after = kEnd;
    for (int32_t i = 0; i < count(); ++i) consider(i);
  }

  void merge() {
    while (!heap_.empty()) {
      const Candidate best = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
      Symbol& left = symbol(best.at);
      if (left.length == 0 || left.after == kEnd || left.length + symbol(left.after).length != best.length) continue;
      Symbol& right = symbol(left.after);
      left.length = best.length;
      left.token = best.token;
      right.length = 0;
      left.after = right.after;
      if (left.after != kEnd) symbol(left.after).before = best.at;
      if (left.before != kEnd) consider(left.before);
      consider(best.at);
    }
  }

  // f(text, token or kNoToken) for each symbol that is left.
  template <class F>
  void for_each(F f) {
    for (int32_t i = 0; i != kEnd; i = symbol(i).after) {
      const std::string_view text = text_.substr(symbol(i).begin, symbol(i).length);
      f(text, symbol(i).token == kUnknown ? find(text) : symbol(i).token);
    }
  }

 private:
  static constexpr int32_t kEnd = -1;
  static constexpr int32_t kUnknown = -2;  // not looked up yet

  struct Symbol {
    size_t begin, length;
    int32_t before, after;
    int32_t token;
  };
  struct Candidate {
    float score;
    int32_t at;  // the left symbol
    int32_t token;
    size_t length;  // of both symbols; if that has changed, the candidate is void
    bool operator<(const Candidate& other) const { return score != other.score ? score < other.score : at > other.at; }
  };

  // Tokens that users have added were found before; where one is still spelled out, it must not be made (input).
  int32_t find(std::string_view text) const {
    const int32_t token = vocabulary_.find_plain(text);
    return token != kNoToken && vocabulary_.has(token, kUserDefinedToken) ? kNoToken : token;
  }
  int32_t count() const { return static_cast<int32_t>(symbols_.size()); }
  Symbol& symbol(int32_t i) { return symbols_[static_cast<size_t>(i)]; }

  void consider(int32_t at) {
    const Symbol& left = symbol(at);
    if (left.after == kEnd) return;
    const size_t length = left.length + symbol(left.after).length;
    if (length > longest_) return;
    const int32_t token = find(text_.substr(left.begin, length));
    if (token == kNoToken) return;
    heap_.push_back({vocabulary_.score(token), at, token, length});
    std::push_heap(heap_.begin(), heap_.end());
  }

  const Vocabulary& vocabulary_;
  size_t longest_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

SentencePieceEncoder::SentencePieceEncoder(const Vocabulary& vocabulary, bool add_space_prefix)
    : vocabulary_(vocabulary), add_space_prefix_(add_space_prefix), byte_fallback_(byte_tokens(vocabulary)) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    longest_ = std::max(longest_, vocabulary.text(id).size());
    cutter_.learn(vocabulary.text(id));
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    int32_t& token = byte_fallback_[static_cast<size_t>(byte)];
    if (token == kNoToken) token = vocabulary.find({&text, 1});
  }
}

void SentencePieceEncoder::encode(std::string_view text, bool fresh, std::vector<int32_t>& out) const {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 2);
  if (fresh && add_space_prefix_) escaped = kEscapedSpace;
  append_replaced(text, " ", kEscapedSpace, escaped);
  Merger merger(vocabulary_, longest_);
  cutter_.for_each_word(escaped, [&](std::string_view word) { encode_word(word, merger, out); });
}

void SentencePieceEncoder::encode_word(std::string_view text, Merger& merger, std::vector<int32_t>& out) const {
  merger.start(text);
  merger.merge();
  merger.for_each([&](std::string_view symbol, int32_t token) {
    if (token != kNoToken) {
      out.push_back(token);
    } else {
      emit_bytes(symbol, out);
    }
  });
}

// A character that is not a token: its bytes, or "unknown" where the vocabulary lacks one of them.
void SentencePieceEncoder::emit_bytes(std::string_view text, std::vector<int32_t>& out) const {
  const size_t before = out.size();
  for (const char byte : text) {
    const int32_t token = byte_fallback_[static_cast<uint8_t>(byte)];
    if (token == kNoToken) {
      out.resize(before);
      if (vocabulary_.spec().unknown != kNoToken) out.push_back(vocabulary_.spec().unknown);
      return;
    }
    out.push_back(token);
  }
}

void SentencePieceEncoder::append_piece(std::string_view token, std::string& out) const {
  append_replaced(token, kEscapedSpace, " ", out);
}

}  // namespace gabbro::text
