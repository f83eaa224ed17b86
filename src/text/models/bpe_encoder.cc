#include "src/text/models/bpe_encoder.h"

#include "src/base/error.h"
#include "src/text/models/byte_alphabet.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
BpeEncoder::BpeEncoder(const Vocabulary& vocabulary, std::string_view pretokenizer,
                       const std::vector<std::string>& merges)
    : vocabulary_(vocabulary), pretokenizer_(pretokenizer), merges_(merges.size()) {
  add_merges(merges);
  if (rule().byte_level) {
    for (int byte = 0; byte < 256; ++byte) {
      byte_symbols_.push_back(find_or_add_symbol(byte_spelling(static_cast<uint8_t>(byte))));
      const char text = static_cast<char>(byte);
      byte_fallback_.push_back(vocabulary_.find({&text, 1}));
    }
  } else {
    byte_fallback_ = byte_tokens(vocabulary_);
  }
}

void BpeEncoder::add_merges(const std::vector<std::string>& merges) {
  int32_t result = kNoToken;
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::string_view merge = merges[i];
    const size_t space = merge.find(' ', 1);
    if (space == merge.npos || space + 1 == merge.size()) {
      throw bad_input("tokenizer.ggml.merges[{}]: not two strings with a space between", i);
    }
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    // Files list merges in the order of the tokens that they make: most often it is the next one.
    result = joined_symbol(left, right, result + 1);
    const bool is_control = result < vocabulary_.size() && vocabulary_.has(result, kControlToken | kUnknownToken);
    if (is_control) continue;  // only its text as a whole may become it, and only where that is not input
    merges_.add(find_or_add_symbol(left), find_or_add_symbol(right), {static_cast<uint32_t>(i), result});
    if (rule().escape_spaces) cutter_.learn(symbol_text(result));
  }
}

int32_t BpeEncoder::joined_symbol(std::string_view left, std::string_view right, int32_t guess) {
  if (vocabulary_.unique() && vocabulary_.contains(guess)) {
    const std::string_view text = vocabulary_.text(guess);
    if (text.size() == left.size() + right.size() && text.starts_with(left) && text.ends_with(right)) return guess;
  }
  std::string joined;
  joined.reserve(left.size() + right.size());
  joined.append(left).append(right);
  return find_or_add_symbol(joined);
}

int32_t BpeEncoder::find_symbol(std::string_view text) const {
  const int32_t token = vocabulary_.find(text);
  if (token != kNoToken) return token;
  const int32_t extra = extra_.find(text);
  return extra == StringTable::kNone ? kNoToken : vocabulary_.size() + extra;
}

std::string_view BpeEncoder::symbol_text(int32_t symbol) const {
  return symbol < vocabulary_.size() ? vocabulary_.text(symbol) : extra_.key(symbol - vocabulary_.size());
}

int32_t BpeEncoder::find_or_add_symbol(std::string_view text) {
  const int32_t symbol = find_symbol(text);
  if (symbol != kNoToken) return symbol;
  return vocabulary_.size() + extra_.add(extra_texts_.emplace_back(text));
}

void BpeEncoder::encode(std::string_view text, bool /*fresh*/, std::vector<int32_t>& out) const {
  std::string escaped, repaired;
  if (rule().escape_spaces) {
    append_replaced(text, " ", kEscapedSpace, escaped);
    text = escaped;
  }
  text = repair_utf8(text, repaired);

  auto memory = memory_.take([&] { return std::make_unique<Memory>(pretokenizer_); });
  size_t begin = 0;
  for (const size_t end : memory->splitter.split(text)) {
    const std::string_view piece = text.substr(begin, end - begin);
    begin = end;
    if (rule().escape_spaces) {
      encode_line(piece, *memory, out);
    } else {
      memory->cache.append(piece, out, [&](std::vector<int32_t>& tokens) { encode_piece(piece, *memory, tokens); });
    }
  }
  memory_.put(std::move(memory));
}

void BpeEncoder::encode_piece(std::string_view piece, Memory& memory, std::vector<int32_t>& out) const {
  const int32_t token = whole_token(piece);
  if (token != kNoToken) return out.push_back(token);
  encode_word(piece, memory.word, out);
}

// Words that begin with spaces come apart only here.
void BpeEncoder::encode_line(std::string_view line, Memory& memory, std::vector<int32_t>& out) const {
  const int32_t token = whole_token(line);
  if (token != kNoToken) return out.push_back(token);
  cutter_.for_each_word(line, [&](std::string_view word) {
    memory.cache.append(word, out, [&](std::vector<int32_t>& tokens) { encode_word(word, memory.word, tokens); });
  });
}

void BpeEncoder::encode_word(std::string_view text, Merger& word, std::vector<int32_t>& out) const {
  word.symbols.clear();
  append_symbols(text, word);
  word.merge(merges_);
  for (const int32_t symbol : word.symbols) emit(symbol, out);
}

// The token that a word is without any merging, or kNoToken.
int32_t BpeEncoder::whole_token(std::string_view word) const {
  const bool newlines = rule().join_newlines && word.find_first_not_of('\n') == word.npos;
  if (!rule().ignore_merges && !newlines) return kNoToken;
  if (!rule().byte_level) return vocabulary_.find_plain(word);
  std::string spelled;
  append_spelling(word, spelled);
  return vocabulary_.find_plain(spelled);
}

void BpeEncoder::append_symbols(std::string_view word, Merger& symbols) const {
  if (rule().byte_level) {
    for (const char byte : word) symbols.symbols.push_back(byte_symbols_[static_cast<uint8_t>(byte)]);
    return;
  }
  for (size_t at = 0; at < word.size();) {
    const std::string_view character = word.substr(at, utf8_length(word[at]));
    at += character.size();
    const int32_t symbol = find_symbol(character);
    if (symbol != kNoToken) {
      symbols.symbols.push_back(symbol);
      continue;
    }
    // No merge can take it, so its bytes stand here already: -2 - byte.
    for (const char byte : character) symbols.symbols.push_back(-2 - static_cast<uint8_t>(byte));
  }
}

void BpeEncoder::emit(int32_t symbol, std::vector<int32_t>& out) const {
  const auto emit_byte = [&](uint8_t byte) {
    if (byte_fallback_[byte] != kNoToken) out.push_back(byte_fallback_[byte]);
  };
  if (symbol < 0) {
    emit_byte(static_cast<uint8_t>(-2 - symbol));
  } else if (symbol < vocabulary_.size()) {
    out.push_back(symbol);
  } else {
    for (const char byte : symbol_text(symbol)) emit_byte(static_cast<uint8_t>(byte));
  }
}

void BpeEncoder::append_piece(std::string_view token, std::string& out) const {
  if (rule().escape_spaces) {
    append_replaced(token, kEscapedSpace, " ", out);
  } else if (!rule().byte_level || !append_spelled_bytes(token, out)) {
    out += token;  // not spelled in the alphabet: it stands for itself
  }
}

}  // namespace gabbro::text
