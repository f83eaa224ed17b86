#include "src/server/answer/blocks.h"

#include <fmt/format.h>

namespace gabbro::server {

std::vector<Block> blocks_of(const Choice& choice) {
  std::vector<Block> blocks;
  if (!choice.thought.empty()) blocks.push_back({.kind = BlockKind::kThought, .text = choice.thought});
  size_t from = 0;
  const auto add_text = [&](size_t to) {
    if (to > from) blocks.push_back({.kind = BlockKind::kText, .text = choice.text.substr(from, to - from)});
    from = to;
  };
  for (const ToolCall& call : choice.calls) {
    add_text(call.text_before);
    blocks.push_back({.kind = BlockKind::kCall, .call = &call});
  }
  add_text(choice.text.size());
  return blocks;
}

std::string named_event(std::string_view name, const Json& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace gabbro::server
