#include "src/jinja/search.h"

#include <cstring>

namespace gabbro::jinja {

size_t find_text(Runtime& runtime, std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const std::string_view rest = text.substr(from);
  const void* found = ::memmem(rest.data(), rest.size(), wanted.data(), wanted.size());
  const size_t at = found ? static_cast<size_t>(static_cast<const char*>(found) - rest.data()) : rest.size();
  runtime.step();
  runtime.scan(rest.substr(0, at));
  return found ? from + at : std::string_view::npos;
}

BackwardSearch::BackwardSearch(Runtime& runtime, std::string_view text, std::string_view wanted)
    : runtime_(runtime), text_(text.rbegin(), text.rend()), wanted_(wanted.rbegin(), wanted.rend()) {
  runtime.reserve(text.size() + wanted.size());
}

size_t BackwardSearch::next() {
  const size_t found = find_text(runtime_, text_, wanted_, at_);
  if (found == std::string_view::npos) return found;
  at_ = found + wanted_.size();
  return text_.size() - at_;
}

}  // namespace gabbro::jinja
