#include "src/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/text/bpe_encoder.h"
#include "src/text/sentencepiece_encoder.h"

namespace gabbro::text {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;  // symbols are counted in 31 bits

// The byte that a token <0xXX> stands for.
bool parse_byte(std::string_view token, char& byte) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return false;
  const int high = digit(token[3]), low = digit(token[4]);
  byte = static_cast<char>(high * 16 + low);
  return high >= 0 && low >= 0;
}

void check_length(std::string_view text) {
  if (text.size() > kMaxText)
    throw bad_input("a text of {} bytes is too long to tokenize at once (limit {})", text.size(), kMaxText);
}

}  // namespace

Tokenizer::Tokenizer(VocabularySpec spec) {
  const std::vector<std::string> merges = std::move(spec.merges);
  const std::string model = spec.model;
  const std::string pre = model == "gemma4" ? model : spec.pre;
  vocabulary_ = std::make_unique<const Vocabulary>(std::move(spec));
  if (model == "gpt2" || model == "gemma4") {
    if (merges.empty() && pre != "kimi-k2") throw bad_input("tokenizer.ggml.merges: missing");
    auto encoder = std::make_unique<const BpeEncoder>(*vocabulary_, pre, merges);
    add_bos_ = encoder->rule().add_bos;
    encoder_ = std::move(encoder);
  } else if (model == "llama") {
    add_bos_ = true;
    add_space_prefix_ = vocabulary_->spec().add_space_prefix.value_or(true);
    encoder_ = std::make_unique<const SentencePieceEncoder>(*vocabulary_, add_space_prefix_);
  } else {
    throw bad_input("tokenizer.ggml.model: tokenizer '{}' is not supported", model);
  }
  add_bos_ = vocabulary_->spec().add_bos.value_or(add_bos_);
  add_eos_ = vocabulary_->spec().add_eos.value_or(false);
  if (add_bos_ && bos() == kNoToken) throw bad_input("tokenizer.ggml.add_bos_token: set, but there is no bos_token_id");
  if (add_eos_ && eos() == kNoToken) throw bad_input("tokenizer.ggml.add_eos_token: set, but there is no eos_token_id");
  splitter_ = std::make_unique<const SpecialSplitter>(*vocabulary_);
  spell_pieces();
}

void Tokenizer::spell_pieces() {
  const Vocabulary& vocabulary = *vocabulary_;
  piece_begins_.reserve(static_cast<size_t>(size()) + 1);
  for (int32_t id = 0; id < size(); ++id) {
    piece_begins_.push_back(pieces_.size());
    const std::string_view text = vocabulary.text(id);
    char byte = 0;
    if (vocabulary.has(id, kControlToken | kUnknownToken | kUserDefinedToken)) {
      pieces_ += text;
    } else if (vocabulary.has(id, kNormalToken)) {
      encoder_->append_piece(text, pieces_);
    } else if (vocabulary.has(id, kByteToken) && parse_byte(text, byte)) {
      pieces_ += byte;
    }
  }
  piece_begins_.push_back(pieces_.size());
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  check_length(text);
  return encode_fragments(splitter_->split(text, options.parse_special), options);
}

std::vector<int32_t> Tokenizer::encode_marked(const jinja::MarkedText& text, EncodeOptions options) const {
  check_length(text.bytes());
  return encode_fragments(splitter_->split(text.bytes(), options.parse_special, text.spans()), options);
}

std::vector<int32_t> Tokenizer::encode_fragments(const std::vector<Fragment>& fragments, EncodeOptions options) const {
  std::vector<int32_t> out;
  if (options.add_special && add_bos_) out.push_back(bos());
  bool fresh = true;
  for (const Fragment& fragment : fragments) {
    fresh = fresh || fragment.token != kNoToken;
    if (fragment.token != kNoToken) {
      out.push_back(fragment.token);
    } else {
      encoder_->encode(fragment.text, std::exchange(fresh, false), out);
    }
  }
  if (options.add_special && add_eos_) out.push_back(eos());
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  bool strip_space = add_space_prefix_;
  if (options.remove_special && add_bos_ && !ids.empty() && ids.front() == bos()) ids = ids.subspan(1);
  if (options.remove_special && add_eos_ && !ids.empty() && ids.back() == eos()) ids = ids.first(ids.size() - 1);
  std::string out;
  for (const int32_t id : ids) {
    std::string_view text = piece(id);
    if (is_control(id) && !options.show_control) text = {};
    if (std::exchange(strip_space, false) && text.starts_with(' ')) text.remove_prefix(1);
    out += text;
  }
  return out;
}

std::string_view Tokenizer::piece(int32_t id) const {
  check_id(id);
  const auto i = static_cast<size_t>(id);
  return std::string_view(pieces_).substr(piece_begins_[i], piece_begins_[i + 1] - piece_begins_[i]);
}

bool Tokenizer::is_control(int32_t id) const {
  check_id(id);
  return vocabulary_->has(id, kControlToken | kUnknownToken);
}

bool Tokenizer::is_end_of_generation(int32_t id) const {
  return std::binary_search(end_of_generation().begin(), end_of_generation().end(), id);
}

void Tokenizer::check_id(int32_t id) const {
  if (!vocabulary_->contains(id)) throw bad_input("token {} is outside the vocabulary of {} tokens", id, size());
}

}  // namespace gabbro::text
