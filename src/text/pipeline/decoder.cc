#include "src/text/pipeline/decoder.h"

#include <utility>

#include "src/base/error.h"
#include "src/text/pipeline/decode_stages.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

std::string one_character(const JsonNode& node) {
  const std::string& text = node.string();
  if (text.empty() || utf8_length(text[0]) != text.size()) throw bad_input("{}: is not one character", node.path());
  return text;
}

}  // namespace

Decoder::Decoder() : stages_{make_join_with_spaces} {}
Decoder::Decoder(const JsonNode& node) { append(node); }

void Decoder::append(const JsonNode& node) {
  constexpr int64_t kMostStripped = 1 << 20;
  const std::string& type = node.at("type").string();
  if (type == "ByteLevel") {
    stages_.emplace_back(make_byte_level_decoder);
  } else if (type == "WordPiece") {
    stages_.emplace_back([prefix = node.at("prefix").string(), cleanup = node.at("cleanup").boolean()] {
      return make_word_piece_decoder(prefix, cleanup);
    });
  } else if (type == "Metaspace") {
    const bool never =
        node.string_or("prepend_scheme", "always") == "never" || !node.boolean_or("add_prefix_space", true);
    stages_.emplace_back([replacement = one_character(node.at("replacement")), never] {
      return make_metaspace_decoder(replacement, !never);
    });
  } else if (type == "BPEDecoder") {
    stages_.emplace_back([suffix = node.at("suffix").string()] { return make_bpe_decoder(suffix); });
  } else if (type == "CTC") {
    stages_.emplace_back(
        [pad = node.at("pad_token").string(), delimiter = node.at("word_delimiter_token").string(),
         cleanup = node.at("cleanup").boolean()] { return make_ctc_decoder(pad, delimiter, cleanup); });
  } else if (type == "ByteFallback") {
    stages_.emplace_back(make_byte_fallback_decoder);
    has_byte_fallback_ = true;
  } else if (type == "Fuse") {
    stages_.emplace_back(make_fuse_decoder);
  } else if (type == "Strip") {
    stages_.emplace_back([content = one_character(node.at("content")),
                          start = static_cast<size_t>(node.at("start").integer(0, kMostStripped)),
                          stop = static_cast<size_t>(node.at("stop").integer(0, kMostStripped))] {
      return make_strip_decoder(content, start, stop);
    });
  } else if (type == "Replace") {
    stages_.emplace_back([pattern = make_pattern(node.at("pattern")), content = node.at("content").string()] {
      return make_replace_decoder(pattern, content);
    });
  } else if (type == "Sequence") {
    for (const JsonNode& step : node.at("decoders").elements()) append(step);
  } else {
    throw bad_input("{}.type: decoder '{}' is not supported", node.path(), type);
  }
}

Decoder::Stream::Stream(const Decoder& decoder) {
  stages_.reserve(decoder.stages_.size());
  for (size_t i = 0; i < decoder.stages_.size(); ++i) {
    stages_.push_back(decoder.stages_[i]());
    outputs_.emplace_back([this, i](std::string_view part, bool ends) { pass(i + 1, part, ends); });
  }
}

void Decoder::Stream::pass(size_t stage, std::string_view part, bool ends) {
  if (stage == stages_.size()) {
    out_ += part;
  } else {
    stages_[stage]->take(part, ends, outputs_[stage]);
  }
}

std::string Decoder::Stream::push(std::string_view token) {
  pass(0, token, true);
  return std::exchange(out_, {});
}

std::string Decoder::Stream::finish() {
  for (size_t i = 0; i < stages_.size(); ++i) stages_[i]->finish(outputs_[i]);
  return std::exchange(out_, {});
}

}  // namespace gabbro::text
