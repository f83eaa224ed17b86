// Text of a model: prompts of chats in the form of the model's own template, text to tokens and back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gabbro/engine/sampler.h"
#include "gabbro/engine/session.h"

#pragma GCC visibility push(default)
namespace gabbro {

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

bool has_chat_template(const Engine& engine);

// The tokens of a conversation and of the beginning of the assistant's answer: a prompt for generate(). Control tokens
// that a content spells out are plain text. Throws bad_input where the model has no chat template, and what the
// template says of the conversation.
std::vector<int32_t> chat_prompt(const Engine& engine, std::span<const ChatMessage> messages);

// The tokens of a text that the model continues, with its bos token where it wants one. Control tokens that the text
// spells out become those tokens.
std::vector<int32_t> encode(const Engine& engine, std::string_view text);
// Without control tokens; may end within a character. Throws bad_input for an id outside the vocabulary.
std::string decode(const Engine& engine, std::span<const int32_t> ids);

// The sampling options in the model's file; all others have the defaults of SamplerOptions.
SamplerOptions default_sampling(const Engine& engine);

}  // namespace gabbro
#pragma GCC visibility pop
