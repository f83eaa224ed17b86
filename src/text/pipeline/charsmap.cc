#include "src/text/pipeline/charsmap.h"

#include <bit>
#include <cstring>

#include "src/base/error.h"

namespace gabbro::text {
namespace {

// The fields of a unit of Darts-clone.
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) == 1; }
uint32_t charsmap_value(uint32_t unit) { return unit & 0x7FFFFFFFU; }
uint32_t label_of(uint32_t unit) { return unit & (0x80000000U | 0xFFU); }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 0x200U) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& where) {
  static_assert(std::endian::native == std::endian::little);
  if (blob.empty()) return;
  uint32_t bytes = 0;
  if (blob.size() < sizeof bytes) throw bad_input("{}: {} bytes are too few", where, blob.size());
  std::memcpy(&bytes, blob.data(), sizeof bytes);
  blob.remove_prefix(sizeof bytes);
  if (bytes > blob.size() || bytes % sizeof(uint32_t) != 0)
    throw bad_input("{}: an array of {} bytes does not fit in {} bytes", where, bytes, blob.size());
  units_.resize(bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), blob.data(), bytes);
  replacements_ = blob.substr(bytes);
  replacements_ += '\0';  // so that every replacement ends
}

template <class Visit>
void Charsmap::for_each_prefix(std::string_view text, Visit visit) const {
  if (units_.empty()) return;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte == 0) return;
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) return;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) return;
    const size_t begin = charsmap_value(units_[node]);
    if (begin >= replacements_.size()) return;
    if (!visit(i + 1, std::string_view(replacements_.c_str() + begin))) return;
  }
}

Charsmap::Match Charsmap::longest(std::string_view text) const {
  Match match;
  for_each_prefix(text, [&](size_t length, std::string_view replacement) {
    match = {length, replacement};
    return true;
  });
  return match;
}

Charsmap::Match Charsmap::shortest(std::string_view text) const {
  Match match;
  for_each_prefix(text, [&](size_t length, std::string_view replacement) {
    match = {length, replacement};
    return false;
  });
  return match;
}

}  // namespace gabbro::text
