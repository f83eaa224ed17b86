#include "src/text/pipeline/normalizer.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/text/base64.h"
#include "src/text/models/byte_alphabet.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

// Rebuilds the text: f(code point, bytes, out) appends what a character becomes.
template <class F>
void map_characters(NormalizedText& text, F f) {
  std::string out;
  out.reserve(text.text.size());
  size_t origin_end = 0;
  for (size_t at = 0; at < text.text.size();) {
    const Character character = read_utf8(text.text, at);
    const size_t length = character.length + character.broken;
    f(character.code_point, std::string_view(text.text).substr(at, length), out);
    at += length;
    if (at <= text.origin_end) origin_end = out.size();
  }
  text.origin_end = origin_end;
  text.text = std::move(out);
}

// Keeps the characters that keep(code point) is true of.
template <class Keep>
void filter(NormalizedText& text, Keep keep) {
  map_characters(text, [&](uint32_t c, std::string_view bytes, std::string& out) {
    if (keep(c)) out += bytes;
  });
}

void normalize_form(NormalizedText& text, NormalizationForm form) {
  if (text.origin_end > 0) {
    text.origin_end = std::max(normalize_unicode(text.text.substr(0, text.origin_end), form).size(), size_t{1});
  }
  text.text = normalize_unicode(text.text, form);
}

class FormNormalizer final : public Normalizer {
 public:
  explicit FormNormalizer(NormalizationForm form) : form_(form) {}
  void normalize(NormalizedText& text) const override { normalize_form(text, form_); }

 private:
  NormalizationForm form_;
};

void make_lower(NormalizedText& text) {
  map_characters(text, [](uint32_t c, std::string_view, std::string& out) { append_lower(out, c); });
}

class LowercaseNormalizer final : public Normalizer {
 public:
  void normalize(NormalizedText& text) const override { make_lower(text); }
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}

  void normalize(NormalizedText& text) const override {
    size_t first = std::string::npos, last = 0, at = 0;  // first character that stays, and the end of the last one
    while (at < text.text.size()) {
      const Character character = read_utf8(text.text, at);
      const size_t begin = std::exchange(at, at + character.length + character.broken);
      if (is_white_space(character.code_point)) continue;
      if (first == std::string::npos) first = begin;
      last = at;
    }
    const size_t size = text.text.size();
    const size_t begin = !left_ ? 0 : first == std::string::npos ? size : first;
    const size_t end = right_ ? std::max(last, begin) : size;
    text.origin_end -= std::min(text.origin_end, begin);
    text.text = text.text.substr(begin, end - begin);
  }

 private:
  bool left_, right_;
};

class StripAccentsNormalizer final : public Normalizer {
 public:
  void normalize(NormalizedText& text) const override {
    filter(text, [](uint32_t c) { return !is_combining(c); });
  }
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  void normalize(NormalizedText& text) const override {
    if (text.text.empty()) return;
    if (text.origin_end > 0) text.origin_end += prefix_.size();
    text.text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void normalize(NormalizedText& text) const override {
    std::string out;
    out.reserve(text.text.size());
    size_t origin_end = 0;
    pattern_.for_each(text.text, [&](size_t begin, size_t end, bool match) {
      const std::string_view part = std::string_view(text.text).substr(begin, end - begin);
      const size_t before = out.size();
      out += match ? std::string_view(content_) : part;
      // New text counts as the last of the characters that it replaces.
      if (match && end <= text.origin_end) origin_end = out.size();
      if (!match && begin < text.origin_end) origin_end = before + std::min(text.origin_end, end) - begin;
    });
    text.origin_end = origin_end;
    text.text = std::move(out);
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class NmtNormalizer final : public Normalizer {
 public:
  void normalize(NormalizedText& text) const override {
    filter(text, [](uint32_t c) {
      const bool control = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F);
      return !control && c != 0x7F && c != 0x8F && c != 0x9F;
    });
    map_characters(text, [](uint32_t c, std::string_view bytes, std::string& out) {
      const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                         c == 0xFFFD;
      out += space ? std::string_view(" ") : bytes;
    });
  }
};

// SentencePiece's rules as `tokenizers` applies them: to a grapheme cluster of less than six bytes as a whole, where a
// rule is for a prefix of it, else to its characters one by one.
class PrecompiledNormalizer final : public Normalizer {
 public:
  explicit PrecompiledNormalizer(Charsmap rules) : rules_(std::move(rules)) {}

  void normalize(NormalizedText& text) const override {
    constexpr size_t kLongestWhole = 5;
    const std::string_view all = text.text;
    std::string out;
    out.reserve(all.size());
    for (size_t at = 0; at < all.size();) {
      // Next to ASCII there are no clusters, except for CR LF.
      const bool plain = static_cast<uint8_t>(all[at]) < 0x80 && all[at] != '\r' &&
                         (at + 1 == all.size() || static_cast<uint8_t>(all[at + 1]) < 0x80);
      const size_t end = plain ? at + 1 : next_grapheme(all, at);
      const std::string_view cluster = all.substr(at, end - at);
      at = end;
      if (cluster.size() <= kLongestWhole) {
        const Charsmap::Match match = rules_.shortest(cluster);
        if (match.length > 0) {
          out += match.replacement;
          continue;
        }
      }
      for (size_t i = 0; i < cluster.size();) {
        const std::string_view bytes = cluster.substr(i, utf8_length(cluster[i]));
        i += bytes.size();
        const Charsmap::Match match = rules_.shortest(bytes);
        out += match.length > 0 ? match.replacement : bytes;
      }
    }
    text.origin_end = std::min<size_t>(text.origin_end, out.empty() ? 0 : 1);  // all else counts from there
    text.text = std::move(out);
  }

 private:
  Charsmap rules_;
};

bool is_ideograph(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

struct BertOptions {
  bool clean_text, handle_chinese_chars, strip_accents, lowercase;
};

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(BertOptions options) : options_(options) {}

  void normalize(NormalizedText& text) const override {
    if (options_.clean_text) clean(text);
    if (options_.handle_chinese_chars) {
      map_characters(text, [](uint32_t c, std::string_view bytes, std::string& out) {
        const bool apart = is_ideograph(c);
        if (apart) out += ' ';
        out += bytes;
        if (apart) out += ' ';
      });
    }
    if (options_.strip_accents) {
      normalize_form(text, NormalizationForm::kNfd);
      filter(text, [](uint32_t c) { return !is_nonspacing(c); });
    }
    if (options_.lowercase) make_lower(text);
  }

 private:
  static void clean(NormalizedText& text) {
    filter(text, [](uint32_t c) {
      if (c == '\t' || c == '\n' || c == '\r') return true;
      return c != 0 && c != 0xFFFD && (c < 0x7F ? c >= 0x20 : !is_other(c));
    });
    map_characters(text, [](uint32_t c, std::string_view bytes, std::string& out) {
      out += is_white_space(c) ? std::string_view(" ") : bytes;
    });
  }

  BertOptions options_;
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  void normalize(NormalizedText& text) const override {
    map_characters(text, [](uint32_t, std::string_view bytes, std::string& out) { append_spelling(bytes, out); });
  }
};

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<const Normalizer>> steps) : steps_(std::move(steps)) {}
  void normalize(NormalizedText& text) const override {
    for (const auto& step : steps_) step->normalize(text);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> steps_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_normalizer(const JsonNode& node) {
  const std::string& type = node.at("type").string();
  if (type == "NFC") return std::make_unique<FormNormalizer>(NormalizationForm::kNfc);
  if (type == "NFD") return std::make_unique<FormNormalizer>(NormalizationForm::kNfd);
  if (type == "NFKC") return std::make_unique<FormNormalizer>(NormalizationForm::kNfkc);
  if (type == "NFKD") return std::make_unique<FormNormalizer>(NormalizationForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  if (type == "Strip")
    return std::make_unique<StripNormalizer>(node.at("strip_left").boolean(), node.at("strip_right").boolean());
  if (type == "StripAccents") return std::make_unique<StripAccentsNormalizer>();
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(node.at("prepend").string());
  if (type == "Replace")
    return std::make_unique<ReplaceNormalizer>(make_pattern(node.at("pattern")), node.at("content").string());
  if (type == "Nmt") return std::make_unique<NmtNormalizer>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "Precompiled") {
    const JsonNode map = node.at("precompiled_charsmap");
    return std::make_unique<PrecompiledNormalizer>(Charsmap(decode_base64(map.string(), map.path()), map.path()));
  }
  if (type == "BertNormalizer") {
    const bool lowercase = node.at("lowercase").boolean();
    return std::make_unique<BertNormalizer>(
        BertOptions{.clean_text = node.at("clean_text").boolean(),
                    .handle_chinese_chars = node.at("handle_chinese_chars").boolean(),
                    .strip_accents = node.boolean_or("strip_accents", lowercase),
                    .lowercase = lowercase});
  }
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const Normalizer>> steps;
    for (const JsonNode& step : node.at("normalizers").elements()) steps.push_back(make_normalizer(step));
    return std::make_unique<SequenceNormalizer>(std::move(steps));
  }
  throw bad_input("{}.type: normalizer '{}' is not supported", node.path(), type);
}

}  // namespace gabbro::text
