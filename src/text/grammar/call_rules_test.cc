// Grammars of calls against the readers of calls, for random tools in each form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "src/text/chat/calls/call_forms.h"
#include "src/text/grammar/test_grammar.h"

namespace gabbro::text::grammar::call_rules_test {
namespace {

using Json = nlohmann::ordered_json;
using Format = ToolCallFormat;
using Random = std::mt19937;

constexpr Format kFormats[] = {Format::kHermes,  Format::kLlama3,  Format::kMistralList,   Format::kMistral,
                               Format::kCommand, Format::kPhi4,    Format::kGranite,       Format::kDeepSeek,
                               Format::kKimi,    Format::kHarmony, Format::kQwenTags,      Format::kGlm,
                               Format::kMiniMax, Format::kDsml,    Format::kPythonic,      Format::kLlama4,
                               Format::kLfm2,    Format::kOlmo3,   Format::kFunctionGemma, Format::kGemma4,
                               Format::kGeneric};

// --- Random schemas, and values that match them

const std::vector<std::string> kPieces = {"a",  "b",  " ",  "\"", "'", "<", "/", ">", "é",
                                          "日", "\n", "\\", "{",  "}", ",", ")", "]", ":"};

Json random_schema(Random& random, int depth) {
  switch (random() % (depth > 0 ? 9 : 6)) {
    case 0:
      return {{"type", "string"}, {"maxLength", random() % 6}};
    case 1:
      return {{"type", "string"}, {"enum", {"red", "dark blue", "a\"b\\c\nd"}}};
    case 2:
      return {{"type", "integer"}, {"minimum", -20}, {"maximum", 300}};
    case 3:
      return {{"type", "number"}, {"minimum", -4}, {"maximum", 4}, {"multipleOf", 0.25}};
    case 4:
      return {{"type", "boolean"}};
    case 5:
      return {{"type", {"string", "null"}}, {"maxLength", 3}};
    case 6:
      return {{"type", "array"}, {"items", random_schema(random, depth - 1)}, {"maxItems", 3}};
    case 7:
      return {{"enum", Json::array({1, "one", true, nullptr, Json::array({"x", false})})}};
    default: {
      Json schema = {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
      for (const char* const name : {"first", "second_one"})
        schema["properties"][name] = random_schema(random, depth - 1);
      schema["required"] = {"first"};
      return schema;
    }
  }
}

Json random_parameters(Random& random) {
  Json schema = {
      {"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}, {"additionalProperties", false}};
  const size_t count = random() % 4;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = "p" + std::to_string(i);
    schema["properties"][name] = random_schema(random, 2);
    if (random() % 2 == 0) schema["required"].push_back(name);
  }
  return schema;
}

Json random_value(Random& random, const Json& schema);

Json random_object(Random& random, const Json& schema) {
  Json object = Json::object();
  for (const auto& [name, property] : schema["properties"].items()) {
    const Json& required = schema["required"];
    const bool is_required = std::ranges::find(required, Json(name)) != required.end();
    if (is_required || random() % 2 == 0) object[name] = random_value(random, property);
  }
  return object;
}

Json random_value(Random& random, const Json& schema) {
  if (schema.contains("enum")) return schema["enum"][random() % schema["enum"].size()];
  const Json& type = schema["type"];
  if (type.is_array() && random() % 3 == 0) return nullptr;
  if (type.is_array() || type == "string") {
    std::string text;
    for (size_t left = random() % (schema["maxLength"].get<size_t>() + 1); left > 0; --left)
      text += kPieces[random() % kPieces.size()];
    return text;
  }
  if (type == "integer") return static_cast<int>(random() % 321) - 20;
  if (type == "number") return (static_cast<int>(random() % 33) - 16) * 0.25;
  if (type == "boolean") return random() % 2 == 0;
  if (type == "object") return random_object(random, schema);
  Json list = Json::array();
  for (size_t left = random() % 4; left > 0; --left) list.push_back(random_value(random, schema["items"]));
  return list;
}

// --- Calls as models write them

std::string number_text(const Json& number) {
  const double value = number.get<double>();
  return value == std::floor(value) ? std::to_string(static_cast<int64_t>(value)) : number.dump();
}

// `quote`: Gemma's; empty: Python's.
std::string loose(const Json& value, const std::string& quote) {
  if (value.is_string()) return quote.empty() ? value.dump() : quote + value.get<std::string>() + quote;
  if (value.is_boolean() || value.is_null())
    return !quote.empty() ? value.dump() : value.is_null() ? "None" : value.get<bool>() ? "True" : "False";
  if (value.is_number()) return number_text(value);
  std::string parts;
  for (const auto& [name, one] : value.items()) {
    if (!parts.empty()) parts += ", ";
    if (value.is_object()) parts += (quote.empty() ? Json(name).dump() : name) + ": ";
    parts += loose(one, quote);
  }
  return value.is_object() ? "{" + parts + "}" : "[" + parts + "]";
}

std::string json_text(const Json& value) {
  if (value.is_number()) return number_text(value);
  if (!value.is_structured()) return value.dump();
  std::string parts;
  for (const auto& [name, one] : value.items())
    parts +=
        (parts.empty() ? "" : ", ") + (value.is_object() ? Json(name).dump() + ": " : std::string()) + json_text(one);
  return value.is_object() ? "{" + parts + "}" : "[" + parts + "]";
}

std::string loose_call(const std::string& head, const Json& arguments, char assign, const char* separator, char close,
                       const std::string& quote) {
  std::string parts;
  for (const auto& [name, value] : arguments.items())
    parts += (parts.empty() ? "" : separator) + name + assign + loose(value, quote);
  return head + parts + close;
}

struct TagWords {
  std::string head, key, after_text, after_json, end_of_value, end;
};

std::string tag_call(const TagWords& words, const Json& arguments, const Json& schema, const std::string& line) {
  std::string text = words.head;
  for (const auto& [name, value] : arguments.items()) {
    const bool is_text = schema["properties"][name].value("type", Json()) == "string";
    text += words.key + name + (is_text ? words.after_text : words.after_json) + line;
    text += (is_text ? value.get<std::string>() : json_text(value)) + line + words.end_of_value + "\n";
  }
  return text + words.end;
}

std::string written(Format format, const std::string& name, const Json& arguments, const Json& schema) {
  const std::string json = json_text(arguments), call = R"({"name": ")" + name + R"(", "arguments": )" + json + "}";
  const std::string d = "｜DSML｜";
  switch (format) {
    case Format::kHermes:
      return "<tool_call>\n" + call + "\n</tool_call>";
    case Format::kLlama3:
      return R"({"name": ")" + name + R"(", "parameters": )" + json + "}";
    case Format::kMistralList:
      return "[TOOL_CALLS][" + call + "]";
    case Format::kCommand:
      return R"(<|START_ACTION|>[{"tool_name": ")" + name + R"(", "parameters": )" + json + "}]<|END_ACTION|>";
    case Format::kPhi4:
      return "functools[" + call + "]";
    case Format::kGranite:
      return "<|tool_call|>[" + call + "]";
    case Format::kMistral:
      return "[TOOL_CALLS]" + name + "[ARGS]" + json;
    case Format::kDeepSeek:
      return "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>" + name + "<｜tool▁sep｜>" + json +
             "<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    case Format::kKimi:
      return "<|tool_calls_section_begin|><|tool_call_begin|>functions." + name + ":0<|tool_call_argument_begin|>" +
             json + "<|tool_call_end|><|tool_calls_section_end|>";
    case Format::kHarmony:
      return "<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>" + json;
    case Format::kQwenTags:
      return "<tool_call>\n" +
             tag_call({"<function=" + name + ">\n", "<parameter=", ">", ">", "</parameter>", "</function>"}, arguments,
                      schema, "\n") +
             "\n</tool_call>";
    case Format::kGlm:
      return tag_call({"<tool_call>" + name + "\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_key>\n<arg_value>",
                       "</arg_value>", "</tool_call>"},
                      arguments, schema, "");
    case Format::kMiniMax:
      return "<minimax:tool_call>\n" +
             tag_call(
                 {"<invoke name=\"" + name + "\">\n", "<parameter name=\"", "\">", "\">", "</parameter>", "</invoke>"},
                 arguments, schema, "") +
             "\n</minimax:tool_call>";
    case Format::kDsml:
      return "<" + d + "function_calls>\n" +
             tag_call({"<" + d + "invoke name=\"" + name + "\">\n", "<" + d + "parameter name=\"",
                       "\" string=\"true\">", "\" string=\"false\">", "</" + d + "parameter>", "</" + d + "invoke>"},
                      arguments, schema, "") +
             "\n</" + d + "function_calls>";
    case Format::kPythonic:
      return "[" + loose_call(name + "(", arguments, '=', ", ", ')', "") + "]";
    case Format::kLlama4:
      return "<|python_start|>[" + loose_call(name + "(", arguments, '=', ", ", ')', "") + "]<|python_end|>";
    case Format::kLfm2:
      return "<|tool_call_start|>[" + loose_call(name + "(", arguments, '=', ", ", ')', "") + "]<|tool_call_end|>";
    case Format::kOlmo3:
      return "<function_calls>" + loose_call(name + "(", arguments, '=', ", ", ')', "") + "</function_calls>";
    case Format::kFunctionGemma:
      return loose_call("<start_function_call>call:" + name + "{", arguments, ':', ",", '}', "<escape>") +
             "<end_function_call>";
    case Format::kGemma4:
      return loose_call("<|tool_call>call:" + name + "{", arguments, ':', ",", '}', "<|\"|>") + "<tool_call|>";
    case Format::kGeneric:
      return "{\"tool_calls\": [" + call + "]}";
    case Format::kNone:
      break;
  }
  return {};
}

// --- What the reader finds

struct Call {
  std::string name, arguments;
  bool is_complete = false;
};
struct Reading {
  std::string text;
  std::vector<Call> calls;
};

Reading read(Format format, const Json& tools, std::string_view text) {
  using Kind = ToolCallPiece::Kind;
  KnownTools known;
  for (const Json& tool : tools) known.emplace(tool["name"].get<std::string>(), text_parameters(tool["parameters"]));
  ToolCallParser parser(format, known);
  Reading reading;
  const auto take = [&](const std::vector<ToolCallPiece>& pieces) {
    for (const ToolCallPiece& piece : pieces) {
      if (piece.kind == Kind::kText) reading.text += piece.text;
      if (piece.kind == Kind::kCall) reading.calls.push_back({piece.text, ""});
      if (piece.kind == Kind::kArguments) reading.calls.back().arguments += piece.text;
      if (piece.kind == Kind::kEnd) reading.calls.back().is_complete = true;
    }
  };
  take(parser.feed(text));
  take(parser.finish());
  return reading;
}

Json random_tools(Random& random) {
  Json tools = Json::array();
  for (const char* const name : {"look-up", "count"})
    tools.push_back({{"name", name}, {"parameters", random_parameters(random)}, {"strict", true}});
  return tools;
}

std::string description(Format format, const Json& tools, bool required) {
  return Json({{"format", call_format_name(format)}, {"tools", tools}, {"required", required}}).dump();
}

TEST(CallRules, CallsAreAcceptedAndReadBack) {
  Random random(11);
  for (int round = 0; round < 40; ++round) {
    const Json tools = random_tools(random);
    for (const Format format : kFormats) {
      TestGrammar required(OutputFormat::Kind::kToolCalls, description(format, tools, true));
      TestGrammar free(OutputFormat::Kind::kToolCalls, description(format, tools, false));
      for (int repeat = 0; repeat < 4; ++repeat) {
        const Json& tool = tools[random() % 2];
        const std::string name = tool["name"].get<std::string>();
        const Json arguments = random_object(random, tool["parameters"]);
        const std::string text = written(format, name, arguments, tool["parameters"]);
        EXPECT_TRUE(required.accepts(text)) << text << "\n" << tool.dump();
        EXPECT_TRUE(free.accepts(text)) << text << "\n" << tool.dump();
        EXPECT_FALSE(required.begins("I " + text)) << text;
        const bool is_whole_answer = format == Format::kLlama3 || format == Format::kPythonic;
        if (!is_whole_answer) EXPECT_TRUE(free.accepts("I look.\n" + text)) << text;
        const Reading reading = read(format, tools, text);
        ASSERT_EQ(reading.calls.size(), 1) << text;
        EXPECT_EQ(reading.text, "") << text;
        EXPECT_EQ(reading.calls[0].name, name) << text;
        EXPECT_TRUE(reading.calls[0].is_complete) << text;
        EXPECT_EQ(Json::parse(reading.calls[0].arguments, nullptr, false), arguments) << text;
      }
    }
  }
}

// A text of the grammar, byte by byte at random; empty: it became too long.
std::string random_text(Random& random, Automaton& automaton) {
  constexpr size_t kLongest = 4000;
  std::string text;
  for (Automaton::State state = automaton.start(); text.size() < kLongest;) {
    if (automaton.accepts(state) && random() % 2 == 0) return text;
    std::vector<uint8_t> bytes;
    for (int byte = 0; byte < 256; ++byte) {
      if (automaton.next(state, static_cast<uint8_t>(byte)) != Automaton::kDead)
        bytes.push_back(static_cast<uint8_t>(byte));
    }
    if (bytes.empty()) return text;
    const uint8_t byte = bytes[random() % bytes.size()];
    text += static_cast<char>(byte);
    state = automaton.next(state, byte);
  }
  return {};
}

TEST(CallRules, WhatTheGrammarAcceptsIsReadAsCallsThatMatchTheSchema) {
  Random random(12);
  size_t checked = 0;
  for (int round = 0; round < 25; ++round) {
    const Json tools = random_tools(random);
    for (const Format format : kFormats) {
      TestGrammar required(OutputFormat::Kind::kToolCalls, description(format, tools, true));
      for (int repeat = 0; repeat < 3; ++repeat) {
        const std::string text = random_text(random, required.automaton());
        if (text.empty()) continue;
        ++checked;
        const Reading reading = read(format, tools, text);
        EXPECT_EQ(reading.text, "") << call_format_name(format) << ": " << text;
        EXPECT_FALSE(reading.calls.empty()) << text;
        for (const Call& call : reading.calls) {
          const auto tool = std::ranges::find_if(tools, [&](const Json& one) { return one["name"] == call.name; });
          ASSERT_TRUE(tool != tools.end() && call.is_complete) << call_format_name(format) << ": " << text;
          const Json arguments = Json::parse(call.arguments, nullptr, false);
          ASSERT_TRUE(arguments.is_object()) << text << "\n" << call.arguments;
          std::string json = json_text(arguments);
          for (size_t at = 0; (at = json.find('\x7F', at)) != json.npos;) json.replace(at, 1, "\\u007f");
          TestGrammar schema(OutputFormat::Kind::kJsonSchema, (*tool)["parameters"].dump());
          EXPECT_TRUE(schema.accepts(json)) << call_format_name(format) << ": " << text << "\n" << json;
        }
      }
    }
  }
  EXPECT_GT(checked, 1000);
}

TEST(CallRules, BrokenCallsAreRefused) {
  const Json tools = Json::parse(
      R"([{"name": "f", "parameters": {"type": "object", "properties": {"s": {"type": "string", "maxLength": 3},
    "n": {"type": "integer"}}, "required": ["s"]}, "strict": true}])");
  const Json good = {{"s", "abc"}, {"n", 5}};
  for (const Format format : kFormats) {
    TestGrammar required(OutputFormat::Kind::kToolCalls, description(format, tools, true));
    const auto accepts = [&](const std::string& name, const Json& arguments) {
      Json schema = tools[0]["parameters"];
      for (const auto& [key, value] : arguments.items())
        schema["properties"][key]["type"] = value.is_string() ? "string" : "other";
      return required.accepts(written(format, name, arguments, schema));
    };
    EXPECT_TRUE(accepts("f", good)) << call_format_name(format);
    for (const Json& bad : {Json({{"s", "abcd"}}), Json({{"n", 5}}), Json({{"s", 5}}), Json({{"s", "a"}, {"n", 0.5}}),
                            Json({{"s", "a"}, {"x", 1}}), Json({{"n", 5}, {"s", "a"}})}) {
      // A text of digits is a text.
      const bool is_tags = format == Format::kQwenTags || format == Format::kGlm || format == Format::kMiniMax;
      if (!is_tags || bad.value("s", Json()) != 5)
        EXPECT_FALSE(accepts("f", bad)) << call_format_name(format) << bad.dump();
    }
    EXPECT_FALSE(accepts("g", good)) << call_format_name(format);
  }
}

TEST(CallRules, NamesThatAFormCannotWriteAreRefused) {
  const auto refused = [](Format format, const char* name) {
    const Json schema = {{"type", "object"}, {"properties", {{name, {{"type", "integer"}}}}}};
    const Json tools = Json::array({Json({{"name", "f"}, {"parameters", schema}})});
    return refusal(OutputFormat::Kind::kToolCalls, description(format, tools, true));
  };
  for (const Format format : {Format::kQwenTags, Format::kPythonic, Format::kGemma4})
    EXPECT_NE(refused(format, "a b").find("the name 'a b'"), std::string::npos) << call_format_name(format);
  EXPECT_EQ(refused(Format::kHermes, "a b"), "");
}

}  // namespace
}  // namespace gabbro::text::grammar::call_rules_test
