#include "src/jinja/marked_text.h"

#include <algorithm>

namespace gabbro::jinja {

MarkedText MarkedText::input(std::string bytes, int32_t source) {
  MarkedText text(std::move(bytes));
  text.add_span({0, text.size(), source});
  return text;
}

void MarkedText::add_span(InputSpan span) {
  if (span.begin == span.end) return;
  if (!spans_.empty() && spans_.back().end == span.begin && spans_.back().source == span.source) {
    spans_.back().end = span.end;
  } else {
    spans_.push_back(span);
  }
}

void MarkedText::append(const MarkedText& other, size_t begin, size_t length) {
  const size_t from = std::min(begin, other.size());
  const size_t to = from + std::min(length, other.size() - from);
  const size_t offset = bytes_.size();
  bytes_.append(other.bytes_, from, to - from);
  auto span = std::upper_bound(other.spans_.begin(), other.spans_.end(), from,
                               [](size_t at, const InputSpan& s) { return at < s.end; });
  for (; span != other.spans_.end() && span->begin < to; ++span) {
    add_span({offset + std::max(span->begin, from) - from, offset + std::min(span->end, to) - from, span->source});
  }
}

MarkedText MarkedText::substr(size_t begin, size_t length) const {
  MarkedText result;
  result.append(*this, begin, length);
  return result;
}

MarkedText MarkedText::slice(std::string_view view) const {
  if (view.empty()) return {};
  return substr(static_cast<size_t>(view.data() - bytes_.data()), view.size());
}

}  // namespace gabbro::jinja
