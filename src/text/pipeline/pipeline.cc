#include "src/text/pipeline/pipeline.h"

#include <algorithm>
#include <utility>

#include "src/text/pipeline/decode_stages.h"
#include "src/text/pipeline/pipeline_worker.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

// `text` with each broken part replaced by U+FFFD, as Python decodes it; `text` itself where it is well-formed. The
// ranges of input move with the text.
std::string_view replace_broken(std::string_view text, std::string& buffer, std::vector<jinja::InputSpan>& input) {
  if (is_valid_utf8(text)) return text;
  auto span = input.begin();
  for (size_t at = 0; at < text.size();) {
    const Character character = read_utf8(text, at);
    const size_t begin = std::exchange(at, at + character.length + character.broken);
    const size_t mapped = buffer.size();
    buffer += character.length > 0 ? text.substr(begin, character.length) : kReplacement;
    while (span != input.end() && span->end <= begin) ++span;
    if (span == input.end()) continue;
    if (span->begin >= begin && span->begin < at) span->begin = mapped;
    if (span->end > begin && span->end <= at) (span++)->end = buffer.size();
  }
  return buffer;
}

}  // namespace

Pipeline::Pipeline(PipelineParts parts, const Vocabulary& vocabulary)
    : parts_(std::move(parts)), vocabulary_(vocabulary), added_(std::move(parts_.added), parts_.normalizer.get()) {
  std::vector<bool> protected_tokens(static_cast<size_t>(vocabulary.size()));
  for (const AddedToken& token : added_.tokens()) {
    protected_tokens[static_cast<size_t>(token.id)] = token.special || token.structural;
    if (token.spelling != token.content) spellings_.emplace(token.id, token.spelling);
  }
  parts_.model->protect(protected_tokens);
}

Pipeline::~Pipeline() = default;

std::unique_ptr<Pipeline::Worker> Pipeline::take_worker() const {
  return workers_.take([&] { return std::make_unique<Worker>(*this); });
}

void Pipeline::encode(const CodecText& request, std::vector<int32_t>& out) const {
  std::string repaired;
  std::vector<jinja::InputSpan> input(request.input.begin(), request.input.end());
  const std::string_view text = replace_broken(request.text, repaired, input);
  const auto scope = request.parse_special ? AddedTokens::Scope::kAll : AddedTokens::Scope::kNoSpecial;
  const bool plain = request.marked || !request.parse_special;
  auto worker = take_worker();
  const auto fragments = request.marked ? added_.split_marked(text, scope, input) : added_.split(text, scope);
  for (const Fragment& fragment : fragments) {
    if (fragment.token != kNoToken) {
      out.push_back(fragment.token);
      continue;
    }
    const bool begins = fragment.text.data() == text.data();
    NormalizedText normalized{{}, begins ? utf8_length(text[0]) : 0};
    std::string_view whole = fragment.text;
    if (parts_.normalizer) {
      normalized.text = whole;
      parts_.normalizer->normalize(normalized);
      whole = normalized.text;
    }
    if (!added_.any_normalized()) {
      encode_fragment(whole, normalized.origin_end > 0, plain, request.threads, *worker, out);
      continue;
    }
    for (const Fragment& part : added_.split_normalized(whole, scope, request.marked)) {
      if (part.token != kNoToken) {
        out.push_back(part.token);
      } else {
        const bool at_origin = normalized.origin_end > 0 && part.text.data() == whole.data();
        encode_fragment(part.text, at_origin, plain, request.threads, *worker, out);
      }
    }
  }
  workers_.put(std::move(worker));
}

std::vector<Fragment> Pipeline::split_special(std::string_view text) const {
  return added_.split_marked(text, AddedTokens::Scope::kAll, {});
}

std::string_view Pipeline::decoder_text(int32_t id) const {
  const auto spelling = spellings_.find(id);
  return spelling == spellings_.end() ? vocabulary_.text(id) : std::string_view(spelling->second);
}

class Pipeline::DecodeStream final : public Stream {
 public:
  DecodeStream(const Pipeline& pipeline, DecodeMode mode)
      : pipeline_(pipeline), mode_(mode), stream_(pipeline.parts_.decoder), drop_(mode.continues) {
    if (mode.continues) pending_ = stream_.push(kContext);
  }

  std::string push(int32_t id) override {
    const Vocabulary& vocabulary = pipeline_.vocabulary_;
    if (vocabulary.has(id, kUnusedToken) || (!mode_.show_control && vocabulary.has(id, kControlToken))) return {};
    return shown(stream_.push(pipeline_.decoder_text(id)));
  }
  std::string finish() override { return shown(stream_.finish()); }

 private:
  // Text that stands before the first token; its one byte is not shown.
  static constexpr std::string_view kContext = "x";

  std::string shown(std::string text) {
    if (!drop_) return text;
    text.insert(0, std::exchange(pending_, {}));
    if (text.empty()) return text;
    drop_ = false;
    return text.substr(kContext.size());
  }

  const Pipeline& pipeline_;
  DecodeMode mode_;
  Decoder::Stream stream_;
  std::string pending_;
  bool drop_;
};

std::unique_ptr<Codec::Stream> Pipeline::decode(DecodeMode mode) const {
  return std::make_unique<DecodeStream>(*this, mode);
}

void Pipeline::append_piece(int32_t id, std::string& out) const {
  if (vocabulary_.has(id, kUnusedToken)) return;
  const std::string_view text = decoder_text(id);
  const int byte = parts_.decoder.has_byte_fallback() ? byte_of_token(text) : -1;
  if (vocabulary_.has(id, kControlToken | kUserDefinedToken)) {
    out += vocabulary_.text(id);
  } else if (byte >= 0) {
    out += static_cast<char>(byte);
  } else {
    DecodeStream stream(*this, {.show_control = true, .continues = true});
    out += stream.push(id);
    out += stream.finish();
  }
}

}  // namespace gabbro::text
