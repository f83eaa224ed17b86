#include "src/text/chat/calls/call_forms.h"

#include <algorithm>

namespace gabbro::text {
namespace {

using Format = ToolCallFormat;

// In the order of ToolCallFormat.
constexpr std::string_view kFormatNames[] = {
    "none",     "hermes", "llama3",  "mistral_list",   "mistral", "command", "phi4", "granite",
    "deepseek", "kimi",   "harmony", "qwen_tags",      "glm",     "minimax", "dsml", "pythonic",
    "llama4",   "lfm2",   "olmo3",   "function_gemma", "gemma4",  "generic"};
static_assert(std::size(kFormatNames) == static_cast<size_t>(Format::kGeneric) + 1);

}  // namespace

CallForm call_form(Format format) {
  switch (format) {
    case Format::kNone:
      return {};
    case Format::kHermes:
      return ObjectMarkers{.begin = "<tool_call>", .end = "</tool_call>", .space = "\n"};
    case Format::kLlama3:
      return ObjectMarkers{.begin = "", .end = "", .arguments_key = "parameters"};
    case Format::kMistralList:
      return ObjectMarkers{.begin = "[TOOL_CALLS]", .end = "", .is_list = true};
    case Format::kCommand:
      return ObjectMarkers{.begin = "<|START_ACTION|>",
                           .end = "<|END_ACTION|>",
                           .is_list = true,
                           .name_key = "tool_name",
                           .arguments_key = "parameters"};
    case Format::kPhi4:
      return ObjectMarkers{.begin = "functools", .end = "", .is_list = true};
    case Format::kGranite:
      return ObjectMarkers{.begin = "<|tool_call|>", .end = "", .is_list = true};
    case Format::kMistral:
      return mistral_form();
    case Format::kDeepSeek:
      return deepseek_form();
    case Format::kKimi:
      return kimi_form();
    case Format::kHarmony:
      return harmony_form();
    case Format::kQwenTags:
      return qwen_form();
    case Format::kGlm:
      return glm_form();
    case Format::kMiniMax:
      return minimax_form();
    case Format::kDsml:
      return dsml_form();
    case Format::kPythonic:
      return python_form();
    case Format::kLlama4:
      return llama4_form();
    case Format::kLfm2:
      return lfm2_form();
    case Format::kOlmo3:
      return olmo3_form();
    case Format::kFunctionGemma:
      return function_gemma_form();
    case Format::kGemma4:
      return gemma4_form();
    case Format::kGeneric:
      return ObjectMarkers{
          .begin = "{\"tool_calls\":", .end = "}", .is_list = true, .space = " ", .has_open_spelling = true};
  }
  return {};
}

std::string_view call_format_name(Format format) { return kFormatNames[static_cast<size_t>(format)]; }

std::optional<Format> find_call_format(std::string_view name) {
  const auto* const found = std::ranges::find(kFormatNames, name);
  if (found == std::end(kFormatNames) || found == std::begin(kFormatNames)) return std::nullopt;
  return static_cast<Format>(found - std::begin(kFormatNames));
}

}  // namespace gabbro::text
