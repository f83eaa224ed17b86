// Calls of tools in any text: the same whole and cut, each call begins before its arguments, and text without a marker
// is unchanged.
#include <cstdlib>

#include "src/text/chat/tool_calls.h"
#include "tests/fuzz/input.h"

using namespace gabbro::text;

namespace {

using Kind = ToolCallPiece::Kind;

// Joined where neighbors have one kind.
void add(std::vector<ToolCallPiece>& all, const std::vector<ToolCallPiece>& more) {
  for (const ToolCallPiece& piece : more) {
    const bool is_joined = piece.kind == Kind::kText || piece.kind == Kind::kArguments;
    if (is_joined && !all.empty() && all.back().kind == piece.kind) {
      all.back().text += piece.text;
    } else {
      all.push_back(piece);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  gabbro::fuzz::Input data(bytes, size);
  const auto format = static_cast<ToolCallFormat>(data.number(0, static_cast<int>(ToolCallFormat::kGeneric)));
  const auto step = static_cast<size_t>(data.number(1, 9));
  const std::string text = data.rest();
  ToolCallParser whole(format, {{"f", {"a"}}}), cut(format, {{"f", {"a"}}});
  std::vector<ToolCallPiece> expected, actual;
  add(expected, whole.feed(text));
  add(expected, whole.finish());
  for (size_t at = 0; at < text.size(); at += step) add(actual, cut.feed(std::string_view(text).substr(at, step)));
  add(actual, cut.finish());
  if (actual != expected) std::abort();
  bool is_open = false;
  for (const ToolCallPiece& piece : expected) {
    if (piece.kind == Kind::kArguments && !is_open) std::abort();
    if (piece.kind == Kind::kEnd && !is_open) std::abort();
    if (piece.kind == Kind::kCall && is_open) std::abort();
    if (piece.kind == Kind::kCall) is_open = true;
    if (piece.kind == Kind::kEnd) is_open = false;
  }
  // Every form but Llama 3's has one of these in the begin of a call.
  const bool has_marker = format == ToolCallFormat::kLlama3 || text.find_first_of("<[{") != text.npos ||
                          text.find("functools") != text.npos;
  if (!has_marker && !text.empty() && (expected.size() != 1 || expected[0].text != text)) std::abort();
  return 0;
}
