#include "src/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/text/grammar/matcher.h"

namespace gabbro::text {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;  // symbols are counted in 31 bits

void check_length(std::string_view text) {
  if (text.size() > kMaxText)
    throw bad_input("a text of {} bytes is too long to tokenize at once (limit {})", text.size(), kMaxText);
}

}  // namespace

struct Tokenizer::Grammars {
  std::once_flag made;
  std::unique_ptr<grammar::GrammarSet> set;
};

Tokenizer::Tokenizer(TokenizerSpec spec)
    : prefix_(std::move(spec.prefix)), suffix_(std::move(spec.suffix)), grammars_(std::make_shared<Grammars>()) {
  vocabulary_ = std::make_unique<const Vocabulary>(std::move(spec.vocabulary));
  codec_ = spec.make_codec(*vocabulary_);
  const auto add = [&](const std::optional<bool>& wanted, const char* kind, int32_t id, std::vector<int32_t>& tokens) {
    if (!wanted.value_or(false)) return;
    if (id == kNoToken) throw bad_input("tokenizer.ggml.add_{}_token: set, but there is no {}_token_id", kind, kind);
    tokens = {id};
  };
  add(vocabulary_->spec().add_bos, "bos", bos(), prefix_);
  add(vocabulary_->spec().add_eos, "eos", eos(), suffix_);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  return encode_text({.text = text, .parse_special = options.parse_special, .threads = options.threads}, options);
}

std::vector<int32_t> Tokenizer::encode_marked(const jinja::MarkedText& text, EncodeOptions options) const {
  return encode_text({.text = text.bytes(),
                      .parse_special = options.parse_special,
                      .marked = true,
                      .input = text.spans(),
                      .threads = options.threads},
                     options);
}

std::vector<int32_t> Tokenizer::encode_text(const CodecText& text, EncodeOptions options) const {
  check_length(text.text);
  std::vector<int32_t> out;
  if (options.add_special) out = prefix_;
  codec_->encode(text, out);
  if (options.add_special) out.insert(out.end(), suffix_.begin(), suffix_.end());
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  for (const int32_t id : ids) check_id(id);
  if (options.remove_special && ids.size() >= prefix_.size() && std::ranges::equal(ids.first(prefix_.size()), prefix_))
    ids = ids.subspan(prefix_.size());
  if (options.remove_special && ids.size() >= suffix_.size() && std::ranges::equal(ids.last(suffix_.size()), suffix_))
    ids = ids.first(ids.size() - suffix_.size());
  const auto stream = codec_->decode({.show_control = options.show_control});
  std::string out;
  for (const int32_t id : ids) out += stream->push(id);
  return out + stream->finish();
}

std::string_view Tokenizer::piece(int32_t id) const {
  check_id(id);
  std::call_once(pieces_->made, [&] {
    pieces_->begins.reserve(static_cast<size_t>(size()) + 1);
    for (int32_t each = 0; each < size(); ++each) {
      pieces_->begins.push_back(pieces_->bytes.size());
      codec_->append_piece(each, pieces_->bytes);
    }
    pieces_->begins.push_back(pieces_->bytes.size());
  });
  const size_t begin = pieces_->begins[static_cast<size_t>(id)], end = pieces_->begins[static_cast<size_t>(id) + 1];
  return std::string_view(pieces_->bytes).substr(begin, end - begin);
}

grammar::GrammarSet& Tokenizer::grammars() const {
  std::call_once(grammars_->made, [&] {
    std::map<std::string, int32_t> controls;
    for (int32_t id = 0; id < size(); ++id) {
      if (is_control(id) && !is_end_of_generation(id)) controls.emplace(piece(id), id);
    }
    grammars_->set = std::make_unique<grammar::GrammarSet>(
        std::make_shared<const grammar::TokenTrie>(grammar::make_token_trie(*this)), std::move(controls));
  });
  return *grammars_->set;
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
