#include "src/text/chat/tool_calls.h"

#include <nlohmann/json.hpp>

#include "src/text/chat/calls/call_forms.h"

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

struct MakeReader {
  KnownTools tools;
  std::unique_ptr<CallReader> operator()(std::monostate) { return std::make_unique<PlainCallReader>(std::move(tools)); }
  std::unique_ptr<CallReader> operator()(const ObjectMarkers& form) {
    return std::make_unique<ObjectCallReader>(form, std::move(tools));
  }
  std::unique_ptr<CallReader> operator()(const NamedCallForm& form) {
    return std::make_unique<NamedCallReader>(form, std::move(tools));
  }
  std::unique_ptr<CallReader> operator()(const TagForm& form) {
    return std::make_unique<TagCallReader>(form, std::move(tools));
  }
  std::unique_ptr<CallReader> operator()(const LooseForm& form) {
    return std::make_unique<LooseCallReader>(form, std::move(tools));
  }
};

// The parts of a form that may be tokens. Others are not harmful.
struct MarkersOfForm {
  using Names = std::vector<std::string>;
  static Names joined(Names names, const Names& more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
  }
  Names operator()(std::monostate) const { return {}; }
  Names operator()(const ObjectMarkers& form) const { return {form.begin, form.end}; }
  Names operator()(const NamedCallForm& form) const {
    return joined({form.begin, form.end, form.name_end}, form.around);
  }
  Names operator()(const TagForm& form) const {
    return joined({form.begin, form.key_begin, form.key_end, form.value_begin, form.value_end, form.end}, form.around);
  }
  Names operator()(const LooseForm& form) const { return {form.begin, form.end, form.quote}; }
};

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
  std::vector<std::string> names = std::visit(MarkersOfForm(), call_form(format));
  std::erase(names, "");
  const auto add = [&](std::initializer_list<const char*> more) {
    names.insert(names.end(), more.begin(), more.end());
  };
  if (format == Format::kMistral) add({"[CALL_ID]"});
  if (format == Format::kDsml) add({"｜DSML｜"});
  if (format == Format::kHarmony) add({"<|constrain|>", "<|message|>", "<|start|>", "<|end|>"});
  return names;
}

std::set<std::string> text_parameters(const nlohmann::ordered_json& schema) {
  std::set<std::string> names;
  if (!schema.is_object()) return names;
  const auto properties = schema.find("properties");
  if (properties == schema.end() || !properties->is_object()) return names;
  for (const auto& [name, property] : properties->items()) {
    if (property.is_object() && property.contains("type") && property["type"] == "string") names.insert(name);
  }
  return names;
}

ToolCallParser::ToolCallParser(ToolCallFormat format, KnownTools tools)
    : reader_(std::visit(MakeReader{std::move(tools)}, call_form(format))) {}
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
