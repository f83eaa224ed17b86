// An answer as blocks in the order of its text: thoughts, text, calls.
#pragma once

#include "src/server/answer/answer.h"

namespace gabbro::server {

enum class BlockKind { kNone, kThought, kText, kCall };

struct Block {
  BlockKind kind;
  std::string text{};              // of thoughts and text
  const ToolCall* call = nullptr;  // of the choice
};

std::vector<Block> blocks_of(const Choice& choice);

// An event of a stream that has a name: "event: NAME\ndata: ...\n\n".
std::string named_event(std::string_view name, const Json& data);

}  // namespace gabbro::server
