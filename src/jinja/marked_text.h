// A text that remembers which of its bytes came from input: from messages, tools and documents rather than from the
// chat template itself. Input never becomes control tokens (Tokenizer::encode).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gabbro::jinja {

// The bytes [begin, end) come from the content of message `source`, or from one of these:
constexpr int32_t kOtherInput = -1;  // tools, documents, variables, other fields of messages
constexpr int32_t kMixedInput = -2;  // several sources, in some order: JSON of a whole message
struct InputSpan {
  size_t begin = 0;
  size_t end = 0;
  int32_t source = kOtherInput;
  bool operator==(const InputSpan&) const = default;
};

class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string bytes) : bytes_(std::move(bytes)) {}  // nothing of it is input
  static MarkedText input(std::string bytes, int32_t source = kOtherInput);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Ascending, not empty; neighbors that touch have different sources.
  const std::vector<InputSpan>& spans() const { return spans_; }
  bool has_input() const { return !spans_.empty(); }

  void append(std::string_view bytes) { bytes_ += bytes; }
  void append(const std::string& bytes) { bytes_ += bytes; }
  void append(const char* bytes) { bytes_ += bytes; }
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  void append(const MarkedText& other, size_t begin, size_t length);

  MarkedText substr(size_t begin, size_t length = std::string::npos) const;
  // For a view into bytes().
  MarkedText slice(std::string_view view) const;

  // f(piece, source or nullptr) for the pieces in order: stretches of input of one source, and what is between them.
  template <class F>
  void for_each_piece(F f) const {
    size_t at = 0;
    for (const InputSpan& span : spans_) {
      if (span.begin > at) f(std::string_view(bytes_).substr(at, span.begin - at), nullptr);
      f(std::string_view(bytes_).substr(span.begin, span.end - span.begin), &span.source);
      at = span.end;
    }
    if (at < bytes_.size()) f(std::string_view(bytes_).substr(at), nullptr);
  }

 private:
  void add_span(InputSpan span);

  std::string bytes_;
  std::vector<InputSpan> spans_;
};

}  // namespace gabbro::jinja
