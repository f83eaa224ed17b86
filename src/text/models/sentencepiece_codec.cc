// Tokenizers of SentencePiece files (tokenizer.model).
#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "src/base/error.h"
#include "src/text/models/sentencepiece_models.h"
#include "src/text/pipeline/added_tokens.h"
#include "src/text/pipeline/charsmap.h"
#include "src/text/pipeline/decode_stages.h"
#include "src/text/pipeline/encoder.h"
#include "src/text/pipeline/word_cutter.h"
#include "src/text/readers/tokenizer_spec.h"
#include "src/text/special/special_names.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

// The normalizer of SentencePiece.
class SentenceNormalizer {
 public:
  SentenceNormalizer(const SentencePieceFile& file, const SymbolMatcher& matcher, const std::string& where)
      : file_(file), matcher_(matcher), rules_(file.charsmap, where + ": normalizer_spec") {}

  // `begins`: a space goes before the text where the model wants one.
  std::string normalize(std::string_view text, bool plain, bool begins) const {
    const bool trims = file_.remove_extra_whitespaces;
    while (trims && !text.empty()) {
      const auto [replacement, length] = step(text, plain);
      if (replacement != " ") break;
      text.remove_prefix(length);
    }
    std::string out;
    if (text.empty()) return out;
    out.reserve(text.size() + text.size() / 2);
    const bool adds_space = file_.add_dummy_prefix && begins;
    if (adds_space && !file_.treat_whitespace_as_suffix) out += space();
    bool after_space = trims;
    while (!text.empty()) {
      auto [part, length] = step(text, plain);
      text.remove_prefix(length);
      while (after_space && part.starts_with(' ')) part.remove_prefix(1);
      if (!part.empty()) {
        append_replaced(part, " ", space(), out);
        after_space = part.ends_with(' ');
      }
      after_space = after_space && trims;
    }
    while (trims && out.ends_with(space())) out.resize(out.size() - space().size());
    if (adds_space && file_.treat_whitespace_as_suffix) out += space();
    return out;
  }

 private:
  std::string_view space() const { return file_.escape_whitespaces ? kEscapedSpace : std::string_view(" "); }

  // The text that the beginning becomes, and how long that beginning is.
  std::pair<std::string_view, size_t> step(std::string_view text, bool plain) const {
    if (const size_t symbol = matcher_.match(text, plain); symbol > 0) return {text.substr(0, symbol), symbol};
    if (const Charsmap::Match rule = rules_.longest(text); rule.length > 0) return {rule.replacement, rule.length};
    const Character character = read_utf8(text, 0);
    if (character.length == 0) return {kReplacement, 1};
    return {text.substr(0, character.length), character.length};
  }

  const SentencePieceFile& file_;
  const SymbolMatcher& matcher_;
  Charsmap rules_;
};

std::vector<bool> structural_pieces(const std::vector<AddedToken>& added, size_t count) {
  std::vector<bool> structural(count);
  for (const AddedToken& token : added) {
    if (static_cast<size_t>(token.id) < count) structural[static_cast<size_t>(token.id)] = token.structural;
  }
  return structural;
}

class SentencePieceCodec final : public Codec {
 public:
  SentencePieceCodec(SentencePieceFile file, std::vector<AddedToken> added, const Vocabulary& vocabulary,
                     const std::string& where)
      : file_(std::move(file)),
        vocabulary_(vocabulary),
        structural_(structural_pieces(added, file_.pieces.size())),
        added_(std::move(added), nullptr),
        matcher_(file_, structural_),
        normalizer_(file_, matcher_, where),
        model_(make_sentence_model(file_, matcher_, structural_)) {
    byte_tokens_.fill(kNoToken);
    for (size_t i = 0; i < file_.pieces.size(); ++i) {
      if (file_.pieces[i].type == static_cast<int32_t>(TokenType::kByte))
        byte_tokens_[static_cast<size_t>(byte_of_token(file_.pieces[i].text))] = static_cast<int32_t>(i);
    }
  }

  void encode(const CodecText& text, std::vector<int32_t>& out) const override {
    const auto scope = text.parse_special ? AddedTokens::Scope::kAll : AddedTokens::Scope::kNoSpecial;
    bool fresh = true;
    for (const Fragment& fragment :
         text.marked ? added_.split_marked(text.text, scope, text.input) : added_.split(text.text, scope)) {
      fresh = fresh || fragment.token != kNoToken;
      if (fragment.token != kNoToken) {
        out.push_back(fragment.token);
      } else {
        encode_plain(fragment.text, text.marked, std::exchange(fresh, false), out);
      }
    }
  }

  std::vector<Fragment> split_special(std::string_view text) const override {
    return added_.split_marked(text, AddedTokens::Scope::kAll, {});
  }

  std::unique_ptr<Stream> decode(DecodeMode mode) const override { return std::make_unique<PieceStream>(*this, mode); }

  void append_piece(int32_t id, std::string& out) const override {
    const std::string_view text = vocabulary_.text(id);
    if (vocabulary_.has(id, kByteToken)) {
      out += static_cast<char>(byte_of_token(text));
    } else if (vocabulary_.has(id, kControlToken | kUnknownToken)) {
      out += text;
    } else {
      append_replaced(text, kEscapedSpace, " ", out);
    }
  }

 private:
  // The text of pieces as SentencePiece joins them.
  class PieceStream final : public Stream {
   public:
    PieceStream(const SentencePieceCodec& codec, DecodeMode mode)
        : codec_(codec), mode_(mode), at_begin_(!mode.continues) {}

    std::string push(int32_t id) override {
      const Vocabulary& vocabulary = codec_.vocabulary_;
      std::string_view text = vocabulary.text(id);
      std::string out;
      if (vocabulary.has(id, kByteToken)) {
        bytes_ += static_cast<char>(byte_of_token(text));
        take_characters(out, false);
        return note(std::move(out));
      }
      take_characters(out, true);
      note(out);
      if (space_dropped_ || any_text_) at_begin_ = false;
      space_dropped_ = false;
      if (vocabulary.has(id, kUnusedToken) && text.empty()) return out;
      if (vocabulary.has(id, kControlToken)) {
        if (mode_.show_control) out += text;
      } else if (vocabulary.has(id, kUnknownToken)) {
        out += mode_.show_control ? text : std::string_view(codec_.file_.unknown_surface);
      } else {
        const bool drops = codec_.file_.add_dummy_prefix || codec_.file_.remove_extra_whitespaces;
        if (at_begin_ && drops && text.starts_with(kEscapedSpace)) {
          text.remove_prefix(kEscapedSpace.size());
          space_dropped_ = !codec_.file_.remove_extra_whitespaces;
        }
        append_replaced(text, kEscapedSpace, " ", out);
      }
      return note(std::move(out));
    }

    std::string finish() override {
      std::string out;
      take_characters(out, true);
      return out;
    }

   private:
    std::string note(std::string out) {
      any_text_ = any_text_ || !out.empty();
      return out;
    }

    // Whole characters of the bytes so far; each byte that begins none is one U+FFFD.
    void take_characters(std::string& out, bool all) {
      while (!bytes_.empty()) {
        const Character character = read_utf8(bytes_, 0);
        if (!character.complete && !all) return;
        out += character.length > 0 ? std::string_view(bytes_).substr(0, character.length) : kReplacement;
        bytes_.erase(0, std::max<size_t>(character.length, 1));
      }
    }

    const SentencePieceCodec& codec_;
    DecodeMode mode_;
    std::string bytes_;
    bool at_begin_, space_dropped_ = false, any_text_ = false;
  };

  void encode_plain(std::string_view text, bool plain, bool begins, std::vector<int32_t>& out) const {
    const std::string normalized = normalizer_.normalize(text, plain, begins);
    std::vector<SentencePart> parts;
    model_->encode(normalized, plain, parts);
    bool after_unknown = false;
    for (const SentencePart& part : parts) {
      const bool unknown = part.token == kNoToken;
      if (!unknown) {
        out.push_back(part.token);
      } else if (file_.byte_fallback) {
        for (const char byte : part.text) out.push_back(byte_tokens_[static_cast<uint8_t>(byte)]);
      } else if (!after_unknown) {
        out.push_back(file_.unknown);
      }
      after_unknown = unknown;
    }
  }

  SentencePieceFile file_;
  const Vocabulary& vocabulary_;
  std::vector<bool> structural_;  // by piece
  AddedTokens added_;
  SymbolMatcher matcher_;
  SentenceNormalizer normalizer_;
  std::unique_ptr<const SentenceModel> model_;
  std::array<int32_t, 256> byte_tokens_{};
};

// Tokens that the files next to the model add to it.
class AddedFiles {
 public:
  AddedFiles(const TokenizerFiles& files, const ConfigFiles& configs, VocabularySpec& vocabulary)
      : vocabulary_(vocabulary) {
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) index_.emplace(vocabulary.tokens[i], static_cast<int32_t>(i));
    if (files.added_tokens) {
      const std::string name = files.name + "/added_tokens.json";
      const Json document = parse_sorted_json(*files.added_tokens, name);
      for (const auto& [text, id] : document.items()) {
        const JsonNode node(id, name + "." + text);
        add({.id = static_cast<int32_t>(node.integer(0, kMostTokens)), .content = text}, name);
      }
    }
    if (const auto decoder = configs.config("added_tokens_decoder")) {
      if (!decoder->is_object()) decoder->refuse("object");
      for (const auto& [id, value] : decoder->value().items())
        add_entry(id, JsonNode(value, decoder->path() + "." + id));
    }
  }

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  static constexpr int64_t kMostTokens = int64_t{1} << 20;

  void add_entry(const std::string& id, const JsonNode& node) {
    if (id.empty() || id.size() > 7 || !std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; }))
      throw bad_input("{}: '{}' is not a token id", node.path(), id);
    AddedToken token{.id = std::stoi(id), .content = node.at("content").string()};
    token.single_word = node.boolean_or("single_word", false);
    token.lstrip = node.boolean_or("lstrip", false);
    token.rstrip = node.boolean_or("rstrip", false);
    token.special = node.boolean_or("special", false);
    add(std::move(token), node.path());
  }

  void add(AddedToken token, const std::string& where) {
    const auto known = index_.find(token.content);
    if (known != index_.end()) {  // a piece of the model, or added before: the model's text comes first
      if (static_cast<size_t>(known->second) < first_added_) return;
      token.id = known->second;
      const auto old = std::find_if(tokens_.begin(), tokens_.end(), [&](auto& t) { return t.id == token.id; });
      set_type(token);
      *old = std::move(token);
      return;
    }
    const auto id = static_cast<size_t>(token.id);
    if (token.id > kMostTokens) throw bad_input("{}: id {} is too large", where, token.id);
    if (id < first_added_) return;  // another name for a piece
    if (id >= vocabulary_.tokens.size()) {
      vocabulary_.tokens.resize(id + 1);
      vocabulary_.scores.resize(id + 1);
      vocabulary_.types.resize(id + 1, static_cast<int32_t>(TokenType::kUnused));
    }
    vocabulary_.tokens[id] = token.content;
    set_type(token);
    index_.emplace(token.content, token.id);
    tokens_.push_back(std::move(token));
  }
  void set_type(const AddedToken& token) {
    vocabulary_.types[static_cast<size_t>(token.id)] =
        static_cast<int32_t>(token.special ? TokenType::kControl : TokenType::kUserDefined);
  }

  VocabularySpec& vocabulary_;
  size_t first_added_ = vocabulary_.tokens.size();
  std::unordered_map<std::string, int32_t> index_;
  std::vector<AddedToken> tokens_;
};

// Whether texts begin and end with a token. Files that do not say are read as llama.cpp and `transformers` read them.
void choose_ends(const ConfigFiles& configs, VocabularySpec& vocabulary) {
  const auto flag = [&](std::string_view key) {
    const auto found = configs.config(key);
    return found ? std::optional<bool>(found->boolean()) : std::nullopt;
  };
  const auto named = configs.config("tokenizer_class");
  const std::string kind = named ? named->string() : "";
  const bool is_t5 = kind.starts_with("T5") || kind.starts_with("MT5");
  for (const char* shifted : {"XLMRoberta", "Camembert", "MBart", "NllbTokenizer", "Barthez"}) {
    if (kind.starts_with(shifted))
      throw bad_input("{}: the ids of {} differ from the SentencePiece file: tokenizer.json is needed",
                      configs.config_name, kind);
  }
  vocabulary.add_bos = flag("add_bos_token").value_or(!is_t5 && vocabulary.bos != kNoToken);
  vocabulary.add_eos = flag("add_eos_token").value_or(is_t5 && vocabulary.eos != kNoToken);
}

// Makes the codec of a file with tokens that others add to it.
std::function<std::unique_ptr<const Codec>(const Vocabulary&)> codec_maker(std::shared_ptr<SentencePieceFile> file,
                                                                           const std::string& where,
                                                                           const std::vector<AddedToken>& added) {
  return [file, where, added](const Vocabulary& all) {
    std::vector<AddedToken> special = added;
    const std::vector<int32_t>& ends = all.end_of_generation();
    for (int32_t id = 0; id < static_cast<int32_t>(file->pieces.size()); ++id) {
      const std::string text(all.text(id));
      if (all.has(id, kControlToken | kUnknownToken)) {
        special.push_back({.id = id, .content = text, .special = true});
      } else if (all.has(id, kUserDefinedToken) && structures_conversations(text)) {
        // The model finds it, except in input.
        special.push_back({.id = id, .content = text, .normalized = true, .structural = true});
      }
    }
    for (AddedToken& token : special) {
      token.structural = token.structural || std::binary_search(ends.begin(), ends.end(), token.id) ||
                         structures_conversations(token.content);
    }
    return std::make_unique<SentencePieceCodec>(std::move(*file), std::move(special), all, where);
  };
}

}  // namespace

TokenizerSpec read_sentencepiece(const TokenizerFiles& files) {
  const std::string where = files.name + "/tokenizer.model";
  const ConfigFiles configs(files);
  auto file = std::make_shared<SentencePieceFile>(read_sentencepiece_file(*files.sentencepiece_model, where));
  TokenizerSpec spec;
  VocabularySpec& vocabulary = spec.vocabulary;
  vocabulary.model = "sentencepiece";
  vocabulary.types_are_exact = true;
  vocabulary.end_of_generation = files.end_of_generation;
  for (const SentencePieceFile::Piece& piece : file->pieces) {
    vocabulary.tokens.push_back(piece.text);
    vocabulary.scores.push_back(piece.score);
    vocabulary.types.push_back(piece.type);
  }
  AddedFiles added(files, configs, vocabulary);
  vocabulary.unknown = file->unknown;
  vocabulary.bos = file->bos;
  vocabulary.eos = file->eos;
  vocabulary.padding = file->padding;
  const auto find = [&](std::string_view text) {
    const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), text);
    return text.empty() || found == vocabulary.tokens.end() ? kNoToken
                                                            : static_cast<int32_t>(found - vocabulary.tokens.begin());
  };
  name_special_tokens(configs, find, vocabulary);
  choose_ends(configs, vocabulary);
  spec.make_codec = codec_maker(file, where, added.tokens());
  return spec;
}

TokenizerSpec read_gguf_unigram(VocabularySpec vocabulary) {
  const std::string where = "tokenizer.ggml.tokens";
  const size_t count = vocabulary.tokens.size();
  if (vocabulary.scores.size() != count)
    throw bad_input("tokenizer.ggml.scores: {} entries for {} tokens", vocabulary.scores.size(), count);
  if (vocabulary.types.size() != count)
    throw bad_input("tokenizer.ggml.token_type: {} entries for {} tokens", vocabulary.types.size(), count);
  auto file = std::make_shared<SentencePieceFile>();
  file->kind = SentencePieceFile::Kind::kUnigram;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(vocabulary.scores[i])) throw bad_input("tokenizer.ggml.scores[{}]: not a number", i);
    if (vocabulary.tokens[i].empty()) throw bad_input("{}[{}]: is empty", where, i);
    file->pieces.push_back({vocabulary.tokens[i], vocabulary.scores[i], vocabulary.types[i]});
    file->byte_fallback = file->byte_fallback || vocabulary.types[i] == static_cast<int32_t>(TokenType::kByte);
  }
  file->charsmap = vocabulary.precompiled_charsmap;
  file->add_dummy_prefix = vocabulary.add_space_prefix.value_or(true);
  file->remove_extra_whitespaces = vocabulary.remove_extra_whitespaces.value_or(true);
  check_sentencepiece(*file, where);
  vocabulary.unknown = file->unknown;
  if (!vocabulary.add_bos) vocabulary.add_bos = false;
  if (!vocabulary.add_eos) vocabulary.add_eos = vocabulary.eos != kNoToken;
  TokenizerSpec spec;
  spec.vocabulary = std::move(vocabulary);
  spec.make_codec = codec_maker(file, "tokenizer.ggml.precompiled_charsmap", {});
  return spec;
}

}  // namespace gabbro::text
