#include "src/text/pipeline/decode_stages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/text/models/byte_alphabet.h"
#include "src/text/pipeline/encoder.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string out;
  append_replaced(text, from, to, out);
  return out;
}

// Steps that need a string as a whole.
class WholeStage : public DecodeStage {
 public:
  void take(std::string_view part, bool ends, const Output& out) final {
    if (ends && whole_.empty()) return decode(part, out);
    whole_ += part;
    if (ends) decode(std::exchange(whole_, {}), out);
  }
  void finish(const Output& out) override {
    if (!whole_.empty()) decode(std::exchange(whole_, {}), out);
  }

 protected:
  virtual void decode(std::string_view item, const Output& out) = 0;

 private:
  std::string whole_;
};

class SpaceJoiner final : public WholeStage {
 protected:
  void decode(std::string_view item, const Output& out) override {
    if (!std::exchange(first_, false)) out(" ", true);
    out(item, true);
  }

 private:
  bool first_ = true;
};

// All bytes are one string.
class ByteLevelStage final : public WholeStage {
 public:
  void finish(const Output& out) override {
    WholeStage::finish(out);
    out({}, true);
  }

 protected:
  void decode(std::string_view item, const Output& out) override {
    std::string bytes;
    out(append_spelled_bytes(item, bytes) ? std::string_view(bytes) : item, false);
  }
};

// Spaces that English does not have where tokens meet.
std::string clean_up(std::string text) {
  if (text.find(' ') == text.npos) return text;
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = replaced(text, from, to);
  return text;
}

class WordPieceStage final : public WholeStage {
 public:
  WordPieceStage(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

 protected:
  void decode(std::string_view item, const Output& out) override {
    std::string text(item);
    if (!std::exchange(first_, false)) {
      if (item.starts_with(prefix_)) {
        text.erase(0, prefix_.size());
      } else {
        text.insert(0, 1, ' ');
      }
    }
    out(cleanup_ ? clean_up(std::move(text)) : text, true);
  }

 private:
  std::string prefix_;
  bool cleanup_, first_ = true;
};

class MetaspaceStage final : public WholeStage {
 public:
  MetaspaceStage(std::string replacement, bool drops_first)
      : replacement_(std::move(replacement)), drops_(drops_first) {}

 protected:
  void decode(std::string_view item, const Output& out) override {
    out(replaced(item, replacement_, std::exchange(drops_, false) ? "" : " "), true);
  }

 private:
  std::string replacement_;
  bool drops_;
};

// The end of a word is a space, but not at the end of the text.
class BpeStage final : public WholeStage {
 public:
  explicit BpeStage(std::string suffix) : suffix_(std::move(suffix)) {}
  void finish(const Output& out) override {
    WholeStage::finish(out);
    if (held_) out(replaced(*held_, suffix_, ""), true);
    held_.reset();
  }

 protected:
  void decode(std::string_view item, const Output& out) override {
    if (held_) out(replaced(*held_, suffix_, " "), true);
    held_ = item;
  }

 private:
  std::string suffix_;
  std::optional<std::string> held_;
};

class CtcStage final : public WholeStage {
 public:
  CtcStage(std::string pad_token, std::string delimiter, bool cleanup)
      : pad_token_(std::move(pad_token)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}

 protected:
  void decode(std::string_view item, const Output& out) override {
    if (last_ && *last_ == item) return;
    last_ = item;
    std::string text = replaced(item, pad_token_, "");
    if (cleanup_) text = replaced(clean_up(std::move(text)), delimiter_, " ");
    if (!text.empty()) out(text, true);
  }

 private:
  std::string pad_token_, delimiter_;
  bool cleanup_;
  std::optional<std::string> last_;
};

// A run of bytes is text where it is well-formed as a whole, else one U+FFFD a byte.
class ByteFallbackStage final : public WholeStage {
 public:
  void finish(const Output& out) override {
    WholeStage::finish(out);
    flush(out);
  }

 protected:
  void decode(std::string_view item, const Output& out) override {
    const int byte = byte_of_token(item);
    if (byte >= 0) {
      bytes_ += static_cast<char>(byte);
      return;
    }
    flush(out);
    out(item, true);
  }

 private:
  void flush(const Output& out) {
    if (bytes_.empty()) return;
    if (is_valid_utf8(bytes_)) {
      out(bytes_, true);
    } else {
      for (size_t i = 0; i < bytes_.size(); ++i) out(kReplacement, true);
    }
    bytes_.clear();
  }

  std::string bytes_;
};

class FuseStage final : public DecodeStage {
 public:
  void take(std::string_view part, bool, const Output& out) override { out(part, false); }
  void finish(const Output& out) override { out({}, true); }
};

class StripStage final : public DecodeStage {
 public:
  StripStage(std::string content, size_t start, size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  void take(std::string_view part, bool ends, const Output& out) override {
    held_ += part;
    while (at_start_ && left_ < start_ && held_.starts_with(content_)) {
      held_.erase(0, content_.size());
      ++left_;
    }
    const bool undecided = at_start_ && left_ < start_ && held_.size() < content_.size() && content_.starts_with(held_);
    if (!undecided) at_start_ = false;
    if (ends) return end(out);
    if (undecided) return;
    // Contents that may belong to the end stay.
    size_t sure = held_.size();
    if (stop_ > 0) {
      const size_t partial = partial_end();
      sure -= partial;
      for (size_t i = 0; i < stop_ && std::string_view(held_).substr(0, sure).ends_with(content_); ++i)
        sure -= content_.size();
    }
    if (sure > 0) out(held_.substr(0, sure), false);
    held_.erase(0, sure);
  }
  void finish(const Output& out) override {
    if (!held_.empty()) end(out);
  }

 private:
  // Bytes at the end that begin a content character.
  size_t partial_end() const {
    for (size_t size = std::min(content_.size() - 1, held_.size()); size > 0; --size) {
      if (std::string_view(held_).ends_with(std::string_view(content_).substr(0, size))) return size;
    }
    return 0;
  }
  void end(const Output& out) {
    for (size_t i = 0; i < stop_ && held_.ends_with(content_); ++i) held_.resize(held_.size() - content_.size());
    out(std::exchange(held_, {}), true);
    at_start_ = true;
    left_ = 0;
  }

  std::string content_;
  size_t start_, stop_;
  std::string held_;
  bool at_start_ = true;
  size_t left_ = 0;  // contents that were dropped at the start
};

class ReplaceStage final : public DecodeStage {
 public:
  ReplaceStage(TextPattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void take(std::string_view part, bool ends, const Output& out) override {
    held_ += part;
    const bool streams = pattern_.regex() == nullptr && !pattern_.text().empty();
    if (!ends && !streams) return;
    size_t keep = 0;  // bytes at the end that may begin a match
    if (!ends) {
      for (size_t size = std::min(pattern_.text().size() - 1, held_.size()); size > 0 && keep == 0; --size) {
        if (std::string_view(held_).ends_with(std::string_view(pattern_.text()).substr(0, size))) keep = size;
      }
    }
    std::string text;
    size_t done = 0;
    pattern_.for_each(held_, [&](size_t begin, size_t end, bool match) {
      if (match) {
        text += content_;
        done = end;
      } else {
        const size_t until = end == held_.size() ? std::max(begin, end - keep) : end;
        text.append(held_, begin, until - begin);
        done = until;
      }
    });
    held_.erase(0, done);
    if (ends || !text.empty()) out(text, ends);
  }
  void finish(const Output& out) override {
    if (!held_.empty()) take({}, true, out);
  }

 private:
  TextPattern pattern_;
  std::string content_;
  std::string held_;
};

}  // namespace

int byte_of_token(std::string_view token) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  const int high = digit(token[3]), low = digit(token[4]);
  return high >= 0 && low >= 0 ? high * 16 + low : -1;
}

std::unique_ptr<DecodeStage> make_join_with_spaces() { return std::make_unique<SpaceJoiner>(); }
std::unique_ptr<DecodeStage> make_byte_level_decoder() { return std::make_unique<ByteLevelStage>(); }
std::unique_ptr<DecodeStage> make_word_piece_decoder(const std::string& prefix, bool cleanup) {
  return std::make_unique<WordPieceStage>(prefix, cleanup);
}
std::unique_ptr<DecodeStage> make_metaspace_decoder(const std::string& replacement, bool drops_first) {
  return std::make_unique<MetaspaceStage>(replacement, drops_first);
}
std::unique_ptr<DecodeStage> make_bpe_decoder(const std::string& suffix) { return std::make_unique<BpeStage>(suffix); }
std::unique_ptr<DecodeStage> make_ctc_decoder(const std::string& pad_token, const std::string& delimiter,
                                              bool cleanup) {
  return std::make_unique<CtcStage>(pad_token, delimiter, cleanup);
}
std::unique_ptr<DecodeStage> make_byte_fallback_decoder() { return std::make_unique<ByteFallbackStage>(); }
std::unique_ptr<DecodeStage> make_fuse_decoder() { return std::make_unique<FuseStage>(); }
std::unique_ptr<DecodeStage> make_strip_decoder(const std::string& content, size_t start, size_t stop) {
  return std::make_unique<StripStage>(content, start, stop);
}
std::unique_ptr<DecodeStage> make_replace_decoder(const TextPattern& pattern, const std::string& content) {
  return std::make_unique<ReplaceStage>(pattern, content);
}

}  // namespace gabbro::text
