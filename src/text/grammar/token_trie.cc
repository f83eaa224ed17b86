#include "src/text/grammar/token_trie.h"

#include <algorithm>
#include <numeric>

#include "src/base/error.h"
#include "src/text/tokenizer.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text::grammar {
namespace {

constexpr size_t kSliceBytes[] = {10, 30};
constexpr size_t kLongestToken = 1U << 12;  // longer ones are never chosen; real vocabularies have up to 256 bytes

}  // namespace

bool is_plain_text(std::string_view text) {
  const auto is_special = [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == '"' || c == '\\' || c == '\x7F'; };
  return is_valid_utf8(text) && std::ranges::none_of(text, is_special);
}

TokenTrie::TokenTrie(std::vector<std::string> pieces) : pieces_(std::move(pieces)), next_equal_(pieces_.size(), -1) {
  std::vector<int32_t> sorted(pieces_.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::erase_if(sorted, [&](int32_t token) { return piece(token).empty() || piece(token).size() > kLongestToken; });
  std::ranges::stable_sort(sorted, [&](int32_t a, int32_t b) { return piece(a) < piece(b); });
  for (const int32_t token : sorted) longest_ = std::max(longest_, piece(token).size());
  // Only the first of equal tokens has a place in the trie.
  std::vector<int32_t> first;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && piece(sorted[i]) == piece(sorted[i - 1])) {
      next_equal_[static_cast<size_t>(sorted[i - 1])] = sorted[i];
    } else {
      first.push_back(sorted[i]);
    }
  }
  tries_.push_back(build(first));
  for (const size_t longest : kSliceBytes) {
    Slice slice{.longest = longest, .mask = TokenMask(size())};
    const auto is_inside = [&](int32_t token) { return piece(token).size() <= longest && is_plain_text(piece(token)); };
    for (const int32_t token : first) {
      if (!is_inside(token)) continue;
      for (int32_t equal = token; equal >= 0; equal = next_equal(equal)) slice.mask.set(equal);
    }
    std::erase_if(first, is_inside);
    slices_.push_back(std::move(slice));
    tries_.push_back(build(first));
  }
}

std::vector<TokenTrie::Node> TokenTrie::build(const std::vector<int32_t>& sorted) const {
  std::vector<Node> nodes;
  std::vector<size_t> path;  // the nodes of the last token's bytes
  std::string_view last;
  const auto close = [&](size_t depth) {
    while (path.size() > depth) {
      nodes[path.back()].end = static_cast<uint32_t>(nodes.size());
      path.pop_back();
    }
  };
  for (const int32_t token : sorted) {
    const std::string& bytes = piece(token);
    const auto shared = static_cast<size_t>(std::ranges::mismatch(bytes, last).in1 - bytes.begin());
    close(shared);
    for (size_t i = shared; i < bytes.size(); ++i) {
      path.push_back(nodes.size());
      nodes.push_back(
          {.end = 0, .token = -1, .depth = static_cast<uint16_t>(i), .byte = static_cast<uint8_t>(bytes[i])});
    }
    nodes[path.back()].token = token;
    last = bytes;
  }
  close(0);
  return nodes;
}

TokenTrie make_token_trie(const Tokenizer& tokenizer) {
  std::vector<std::string> pieces(static_cast<size_t>(tokenizer.size()));
  for (int32_t token = 0; token < tokenizer.size(); ++token) {
    if (tokenizer.is_control(token) || tokenizer.is_end_of_generation(token)) continue;
    pieces[static_cast<size_t>(token)] = tokenizer.piece(token);
  }
  return TokenTrie(std::move(pieces));
}

}  // namespace gabbro::text::grammar
