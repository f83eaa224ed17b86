// Tokenizers of GGUF files.
#include <utility>

#include "src/base/error.h"
#include "src/text/models/bpe_encoder.h"
#include "src/text/models/sentencepiece_encoder.h"
#include "src/text/pipeline/decode_stages.h"
#include "src/text/readers/tokenizer_spec.h"

namespace gabbro::text {
namespace {

class GgufCodec final : public Codec {
 public:
  GgufCodec(const Vocabulary& vocabulary, std::unique_ptr<const Encoder> encoder, bool add_space_prefix)
      : vocabulary_(vocabulary),
        encoder_(std::move(encoder)),
        splitter_(vocabulary),
        add_space_prefix_(add_space_prefix) {}

  void encode(const CodecText& text, std::vector<int32_t>& out) const override {
    const auto input = text.marked ? text.input : std::span<const jinja::InputSpan>{};
    bool fresh = true;
    for (const Fragment& fragment : splitter_.split(text.text, text.parse_special, input)) {
      fresh = fresh || fragment.token != kNoToken;
      if (fragment.token != kNoToken) {
        out.push_back(fragment.token);
      } else {
        encoder_->encode(fragment.text, std::exchange(fresh, false), out);
      }
    }
  }

  std::vector<Fragment> split_special(std::string_view text) const override { return splitter_.split(text, true); }

  std::unique_ptr<Stream> decode(DecodeMode mode) const override { return std::make_unique<GgufStream>(*this, mode); }

  void append_piece(int32_t id, std::string& out) const override {
    const std::string_view text = vocabulary_.text(id);
    if (vocabulary_.has(id, kControlToken | kUnknownToken | kUserDefinedToken)) {
      out += text;
    } else if (vocabulary_.has(id, kNormalToken)) {
      encoder_->append_piece(text, out);
    } else if (vocabulary_.has(id, kByteToken) && byte_of_token(text) >= 0) {
      out += static_cast<char>(byte_of_token(text));
    }
  }

 private:
  class GgufStream final : public Stream {
   public:
    GgufStream(const GgufCodec& codec, DecodeMode mode)
        : codec_(codec), show_control_(mode.show_control), strip_space_(codec.add_space_prefix_ && !mode.continues) {}

    std::string push(int32_t id) override {
      std::string text;
      if (show_control_ || !codec_.vocabulary_.has(id, kControlToken | kUnknownToken)) codec_.append_piece(id, text);
      if (std::exchange(strip_space_, false) && text.starts_with(' ')) text.erase(0, 1);
      return text;
    }
    std::string finish() override { return {}; }

   private:
    const GgufCodec& codec_;
    bool show_control_, strip_space_;
  };

  const Vocabulary& vocabulary_;
  std::unique_ptr<const Encoder> encoder_;
  SpecialSplitter splitter_;
  bool add_space_prefix_;
};

TokenizerSpec read_byte_pairs(VocabularySpec vocabulary) {
  TokenizerSpec spec;
  std::vector<std::string> merges = std::move(vocabulary.merges);
  const std::string pre = vocabulary.model == "gemma4" ? vocabulary.model : vocabulary.pre;
  if (merges.empty() && pre != "kimi-k2") throw bad_input("tokenizer.ggml.merges: missing");
  if (!vocabulary.add_bos) vocabulary.add_bos = PreTokenizer(pre).rule().add_bos;
  spec.vocabulary = std::move(vocabulary);
  spec.make_codec = [pre, merges = std::move(merges)](const Vocabulary& v) {
    return std::make_unique<GgufCodec>(v, std::make_unique<BpeEncoder>(v, pre, merges), false);
  };
  return spec;
}

TokenizerSpec read_sentencepiece_pairs(VocabularySpec vocabulary) {
  TokenizerSpec spec;
  const bool space = vocabulary.add_space_prefix.value_or(true);
  if (!vocabulary.add_bos) vocabulary.add_bos = true;
  spec.vocabulary = std::move(vocabulary);
  spec.make_codec = [space](const Vocabulary& v) {
    return std::make_unique<GgufCodec>(v, std::make_unique<SentencePieceEncoder>(v, space), space);
  };
  return spec;
}

}  // namespace

TokenizerSpec read_gguf_vocabulary(VocabularySpec vocabulary) {
  const std::string model = vocabulary.model;
  if (model == "gpt2" || model == "gemma4") return read_byte_pairs(std::move(vocabulary));
  if (model == "llama") return read_sentencepiece_pairs(std::move(vocabulary));
  if (model == "t5") return read_gguf_unigram(std::move(vocabulary));
  if (model == "bert") return read_gguf_word_pieces(std::move(vocabulary));
  throw bad_input("tokenizer.ggml.model: tokenizer '{}' is not supported", model);
}

}  // namespace gabbro::text
