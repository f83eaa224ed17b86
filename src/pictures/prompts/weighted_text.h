// Prompts with weights, as A1111 and ComfyUI write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gabbro::pictures {

enum class PromptSyntax {
  kPlain,   // as diffusers takes a prompt: no weights, and no more than one chunk of tokens
  kA1111,   // (x) 1.1, [x] 1 / 1.1, (x:1.3), which multiply; BREAK begins a chunk
  kComfyUi  // (x) 1.1, (x:1.3), which takes the place of the weight around it
};

struct WeightedText {
  std::string text;
  float weight = 1;
  bool begins_chunk = false;  // after BREAK
};

// A prompt's parts in their order. A backslash before a bracket (A1111: also before itself) takes its meaning away, and
// a bracket without its other half is text. No parts: an empty prompt.
std::vector<WeightedText> parse_prompt(std::string_view prompt, PromptSyntax syntax);

// Words of a prompt that the program of `syntax` takes for more than text, and parse_prompt() does not: A1111's changes
// during the steps, "[from:to:0.5]" and "[one|other]", and its compositions, " AND ".
std::vector<std::string> special_words(std::string_view prompt, PromptSyntax syntax);

}  // namespace gabbro::pictures
