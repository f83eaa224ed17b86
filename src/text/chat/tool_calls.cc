#include "src/text/chat/tool_calls.h"

#include "src/text/chat/calls/loose_calls.h"
#include "src/text/chat/calls/named_calls.h"
#include "src/text/chat/calls/object_calls.h"
#include "src/text/chat/calls/tag_calls.h"

namespace gabbro::text {
namespace {

using Format = ToolCallFormat;

// Any text.
class PlainCallReader final : public CallReader {
 public:
  using CallReader::CallReader;
  void step(char c) override { emit(PieceKind::kText, std::string_view(&c, 1)); }
  void finish() override {}
};

ObjectMarkers object_markers(Format format) {
  switch (format) {
    case Format::kHermes:
      return {.begin = "<tool_call>", .end = "</tool_call>"};
    case Format::kMistralList:
      return {.begin = "[TOOL_CALLS]", .end = ""};
    case Format::kCommand:
      return {.begin = "<|START_ACTION|>", .end = "<|END_ACTION|>"};
    case Format::kPhi4:
      return {.begin = "functools", .end = ""};
    case Format::kGranite:
      return {.begin = "<|tool_call|>", .end = ""};
    default:
      return {};
  }
}

std::unique_ptr<CallReader> make_call_reader(Format format, KnownTools tools) {
  const auto named = [&](NamedCallForm form) { return std::make_unique<NamedCallReader>(form, std::move(tools)); };
  const auto tags = [&](TagForm form) { return std::make_unique<TagCallReader>(form, std::move(tools)); };
  const auto loose = [&](LooseForm form) { return std::make_unique<LooseCallReader>(form, std::move(tools)); };
  switch (format) {
    case Format::kNone:
      return std::make_unique<PlainCallReader>(std::move(tools));
    case Format::kHermes:
    case Format::kLlama3:
    case Format::kMistralList:
    case Format::kCommand:
    case Format::kPhi4:
    case Format::kGranite:
      return std::make_unique<ObjectCallReader>(object_markers(format), std::move(tools));
    case Format::kMistral:
      return named(mistral_form());
    case Format::kDeepSeek:
      return named(deepseek_form());
    case Format::kKimi:
      return named(kimi_form());
    case Format::kHarmony:
      return named(harmony_form());
    case Format::kQwenTags:
      return tags(qwen_form());
    case Format::kGlm:
      return tags(glm_form());
    case Format::kMiniMax:
      return tags(minimax_form());
    case Format::kDsml:
      return tags(dsml_form());
    case Format::kPythonic:
      return loose(python_form());
    case Format::kLlama4:
      return loose(llama4_form());
    case Format::kLfm2:
      return loose(lfm2_form());
    case Format::kOlmo3:
      return loose(olmo3_form());
    case Format::kFunctionGemma:
      return loose(function_gemma_form());
    case Format::kGemma4:
      return loose(gemma4_form());
  }
  return nullptr;
}

// Text that only templates of one format have; the first row that fits counts.
struct CallSign {
  std::string_view text, other;  // both are in the template; empty: any
  Format format;
};
constexpr CallSign kCallSigns[] = {
    {"<|channel|>", "to=functions.", Format::kHarmony},
    {"｜DSML｜", "", Format::kDsml},
    {"dsml_token", "", Format::kDsml},
    {"<｜tool▁call▁begin｜>", "", Format::kDeepSeek},
    {"<|tool_call_begin|>", "", Format::kKimi},
    {"<minimax:tool_call>", "", Format::kMiniMax},
    {"[TOOL_CALLS]", "[ARGS]", Format::kMistral},
    {"[TOOL_CALLS]", "", Format::kMistralList},
    {"<|START_ACTION|>", "", Format::kCommand},
    {"functools[", "", Format::kPhi4},
    {"<start_function_call>", "", Format::kFunctionGemma},
    {"<|tool_call>", "", Format::kGemma4},
    {"<|tool_call_start|>", "", Format::kLfm2},
    {"<function_calls>", "", Format::kOlmo3},
    {"<|python_start|>", "", Format::kLlama4},
    {"<function=", "<parameter=", Format::kQwenTags},
    {"<arg_key>", "", Format::kGlm},
    {"<|tool_call|>", "", Format::kGranite},
    {"<tool_call>", "", Format::kHermes},
    {"[func_name1(params_name1=params_value1", "", Format::kPythonic},
};

}  // namespace

ToolCallFormat tool_call_format(std::string_view source) {
  const auto has = [&](std::string_view text) { return source.find(text) != source.npos; };
  for (const CallSign& sign : kCallSigns) {
    if (has(sign.text) && has(sign.other)) return sign.format;
  }
  if (has("\"parameters\":") && (has("ipython") || has("<|python_tag|>") || has("<|eot_id|>"))) return Format::kLlama3;
  return Format::kNone;
}

std::vector<std::string> tool_call_controls(ToolCallFormat format) {
  switch (format) {
    case Format::kMistralList:
      return {"[TOOL_CALLS]"};
    case Format::kMistral:
      return {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
    case Format::kDeepSeek:
      return {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
              "<｜tool▁calls▁end｜>"};
    case Format::kKimi:
      return {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
              "<|tool_call_end|>", "<|tool_calls_section_end|>"};
    case Format::kHarmony:
      return {"<|channel|>", "<|constrain|>", "<|message|>", "<|start|>", "<|end|>"};
    case Format::kFunctionGemma:
      return {"<start_function_call>", "<end_function_call>", "<escape>"};
    case Format::kGemma4:
      return {"<|tool_call>", "<tool_call|>", "<|\"|>"};
    case Format::kLlama4:
      return {"<|python_start|>", "<|python_end|>"};
    case Format::kLfm2:
      return {"<|tool_call_start|>", "<|tool_call_end|>"};
    case Format::kDsml:
      return {"｜DSML｜"};
    case Format::kQwenTags:
    case Format::kHermes:
    case Format::kGlm:
      return {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};
    default: {
      const ObjectMarkers markers = object_markers(format);
      std::vector<std::string> controls;
      for (const std::string& one : {markers.begin, markers.end}) {
        if (!one.empty()) controls.push_back(one);
      }
      return controls;
    }
  }
}

ToolCallParser::ToolCallParser(ToolCallFormat format, KnownTools tools)
    : reader_(make_call_reader(format, std::move(tools))) {}
ToolCallParser::~ToolCallParser() = default;
ToolCallParser::ToolCallParser(ToolCallParser&&) noexcept = default;

std::vector<ToolCallPiece> ToolCallParser::feed(std::string_view text) {
  for (const char c : text) reader_->step(c);
  return reader_->take();
}

std::vector<ToolCallPiece> ToolCallParser::finish() {
  reader_->finish();
  return reader_->take();
}

}  // namespace gabbro::text
