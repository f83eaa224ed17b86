// The calls of each family: whole, cut anywhere, and broken.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "src/text/chat/calls/loose_value.h"
#include "src/text/chat/tool_calls.h"

namespace gabbro::text::call_formats_test {
namespace {

using Kind = ToolCallPiece::Kind;
using Format = ToolCallFormat;

// Calls as [name|arguments], an incomplete one without the closing bracket.
std::string parsed(Format format, std::string_view text, const std::vector<size_t>& cuts) {
  ToolCallParser parser(format, {{"f", {"s", "t"}}, {"g", {}}});
  std::string out;
  const auto take = [&](const std::vector<ToolCallPiece>& pieces) {
    for (const ToolCallPiece& piece : pieces) {
      if (piece.kind == Kind::kCall) out += "[" + piece.text + "|";
      if (piece.kind == Kind::kText || piece.kind == Kind::kArguments) out += piece.text;
      if (piece.kind == Kind::kEnd) out += "]";
    }
  };
  size_t from = 0;
  for (const size_t to : cuts) {
    take(parser.feed(text.substr(from, to - from)));
    from = to;
  }
  take(parser.feed(text.substr(from)));
  take(parser.finish());
  return out;
}

struct Case {
  std::string text, expected;
};

void check(Format format, const std::vector<Case>& cases) {
  std::mt19937 random(7);
  for (const Case& one : cases) {
    EXPECT_EQ(parsed(format, one.text, {}), one.expected) << one.text;
    std::vector<size_t> all;
    for (size_t at = 1; at < one.text.size(); ++at) {
      EXPECT_EQ(parsed(format, one.text, {at}), one.expected) << one.text << " cut at " << at;
      all.push_back(at);
    }
    EXPECT_EQ(parsed(format, one.text, all), one.expected) << one.text << " byte by byte";
    for (int round = 0; round < 10; ++round) {
      std::vector<size_t> cuts;
      for (const size_t at : all) {
        if (random() % 4 == 0) cuts.push_back(at);
      }
      EXPECT_EQ(parsed(format, one.text, cuts), one.expected) << one.text;
    }
  }
}

TEST(CallFormats, MistralLists) {
  check(Format::kMistralList,
        {{"plain [1, 2] text", "plain [1, 2] text"},
         {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}]", "[f|{\"a\": 1}]"},
         {"Yes. [TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {\"b\": []}}] ok",
          "Yes.[f|{}][g|{\"b\": []}]ok"},
         {"[TOOL_CALLS]{\"name\": \"f\", \"arguments\": {}}", "[f|{}]"},
         {"[TOOL_CALLS] none", "[TOOL_CALLS] none"},
         {"[TOOL_CALLS][]", "[TOOL_CALLS][]"},
         {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": oops}}]", "[f|{\"a\": oops}}]"},
         {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1", "[f|{\"a\": 1"}});
}

TEST(CallFormats, ListsOfOtherFamilies) {
  check(Format::kCommand,
        {{"I look.<|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": 1}},\n "
          "{\"tool_call_id\": \"1\", \"tool_name\": \"g\", \"parameters\": {}}\n]<|END_ACTION|> done",
          "I look.[f|{\"a\": 1}][g|{}]done"},
         {"<|START_ACTION|>[5]<|END_ACTION|>", "<|START_ACTION|>[5]<|END_ACTION|>"}});
  check(Format::kPhi4, {{"functools[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "[f|{\"a\": 1}]"},
                        {"functools is a module, functools[0] is not", "functools is a module, functools[0] is not"}});
  check(Format::kGranite, {{"<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]", "[f|{}]"}});
  check(Format::kHermes,
        {{"<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\"}]</tool_call>!", "[f|{}][g|{}]!"}});
}

TEST(CallFormats, NamesBeforeObjects) {
  check(Format::kMistral, {{"a[TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]\"}[TOOL_CALLS]g[CALL_ID]x1[ARGS]{} b",
                            "a[f|{\"a\": \"[TOOL_CALLS]\"}][g|{}]b"},
                           {"[TOOL_CALLS]no name{}", "[TOOL_CALLS]no name{}"},
                           {"[TOOL_CALLS]?[TOOL_CALLS]f[ARGS]{}", "[TOOL_CALLS]?[f|{}]"},
                           {"[TOOL_CALLS]f[ARGS]", "[TOOL_CALLS]f[ARGS]"},
                           {"[TOOL_CALLS]f[ARGS]{a}[TOOL_CALLS]g[ARGS]{}", "[f|{a}][g|{}]"},
                           {"[TOOL_CALLS]f[ARGS]{\"a\": tru", "[f|{\"a\": tru"}});
  check(Format::kDeepSeek,
        {{"x\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
          "1}\n```<｜tool▁call▁end｜>\n"
          "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
          "x[f|{\"a\": 1}][g|{}]"},
         {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
          "[f|{\"a\": 1}]"},
         {"<｜tool▁call▁begin｜>f<｜tool▁sep｜><｜tool▁call▁end｜>", "[f|{}]"},
         {"<｜tool▁call▁begin｜>f<｜tool▁sep｜>{a}<｜tool▁call▁end｜>b", "[f|{a}]b"},
         {"<｜tool▁calls▁begin｜>nothing", "<｜tool▁calls▁begin｜>nothing"}});
  check(Format::kKimi,
        {{"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}"
          "<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
          "<|tool_calls_section_end|>",
          "[f|{\"a\": 1}][g|{}]"}});
  check(Format::kHarmony, {{"Hm.<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
                            "Hm.[f|{\"a\": 1}]"},
                           {"<|channel|>commentary to=functions.g<|message|>{}", "[g|{}]"}});
}

TEST(CallFormats, Tags) {
  check(Format::kQwenTags,
        {{"Now.\n<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n12\n</"
          "parameter>\n<parameter=b>\nTrue"
          "\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
          "Now.[f|{\"s\": \"12\", \"n\": 12, \"b\": true}][g|{}]"},
         {"<function=f><parameter=s>\n  a\n<b>\"é\"\n\n</parameter></function>after",
          "[f|{\"s\": \"  a\\n<b>\\\"é\\\"\\n\"}]after"},
         {"<tool_call> is a tag", "<tool_call> is a tag"},
         {"<function=not a name>", "<function=not a name>"},
         {"<function=f><parameter=x>no number</parameter><oops>", "[f|{\"x\": \"no number\"}]<oops>"},
         {"<function=f>\n<parameter=x>\n1\n</parameter>\n", "[f|{\"x\": 1}]"},
         {"<function=f>\n<parameter=x>\n1\n</para", "[f|"}});
  check(Format::kGlm,
        {{"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>x\ny</arg_value>\n<arg_key>n</arg_key>\n<arg_value>[1, "
          "2]</arg_value>"
          "\n</tool_call>",
          "[f|{\"s\": \"x\\ny\", \"n\": [1, 2]}]"},
         {"<tool_call>f<arg_key>n</arg_key><arg_value>null</arg_value></tool_call><tool_call>g</tool_call> ok",
          "[f|{\"n\": null}][g|{}]ok"},
         {"<tool_call>no name at all</tool_call>", "<tool_call>no name at all</tool_call>"},
         {"<tool_call>f<arg_key>n</arg_key>5</arg_value></tool_call>", "[f|{\"n\": 5}]"}});
  check(Format::kMiniMax, {{"<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">x</parameter>\n<parameter "
                            "name=\"n\">{\"a\": 1}"
                            "</parameter>\n</invoke>\n</minimax:tool_call>",
                            "[f|{\"s\": \"x\", \"n\": {\"a\": 1}}]"}});
  check(Format::kDsml, {{"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"s\" "
                         "string=\"true\">1</｜DSML｜parameter>"
                         "\n<｜DSML｜parameter name=\"n\" "
                         "string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
                         "[f|{\"s\": \"1\", \"n\": 1}]"}});
}

TEST(CallFormats, Python) {
  check(Format::kPythonic, {{"[f(s='it\\'s', n=-1.5, b=True, l=[1, {'k': None}]), g()]",
                             "[f|{\"s\": \"it's\", \"n\": -1.5, \"b\": true, \"l\": [1,{\"k\":null}]}][g|{}]"},
                            {" [f(s=\"a, b)\")]\n", "[f|{\"s\": \"a, b)\"}]"},
                            {"[f(s='x'), then", "[f|{\"s\": \"x\"}]then"},
                            {"[1, 2]", "[1, 2]"},
                            {"[h(a=1)]", "[h(a=1)]"},
                            {"[", "["},
                            {"text [f(a=1)]", "text [f(a=1)]"},
                            {"[f('x')]", "[f|{}]'x')]"},
                            {"[f(s='x', n=", "[f|{\"s\": \"x\""},
                            {"[f(n=what is it)]", "[f|{\"n\": \"what is it\"}]"}});
  check(Format::kLlama4,
        {{"<|python_start|>[f(n=1)]<|python_end|>", "[f|{\"n\": 1}]"}, {"<|python_start|>print(1)", "[print|{}]1)"}});
  check(Format::kLfm2,
        {{"a<|tool_call_start|>[f(n=1), g()]<|tool_call_end|>b", "a[f|{\"n\": 1}][g|{}]b"},
         {"<|tool_call_start|>[f(n=1)]<|tool_call_end|><|tool_call_start|>?", "[f|{\"n\": 1}]<|tool_call_start|>?"}});
  check(Format::kOlmo3,
        {{"<function_calls>f(n=1)\ng(m=(1, 2))\n</function_calls>", "[f|{\"n\": 1}][g|{\"m\": [1,2]}]"}});
}

TEST(CallFormats, Gemma) {
  check(Format::kFunctionGemma,
        {{"<start_function_call>call:f{s:<escape>a, {b}<escape>,n:1}<end_function_call>",
          "[f|{\"s\": \"a, {b}\", \"n\": 1}]"},
         {"<start_function_call>calls<end_function_call>", "<start_function_call>calls<end_function_call>"}});
  check(Format::kGemma4,
        {{"<|tool_call>call:f{s:<|\"|>x<|\"|>,o:{k:[<|\"|>a<|\"|>,true]}}<tool_call|><|tool_call>call:g{}<tool_call|>",
          "[f|{\"s\": \"x\", \"o\": {\"k\":[\"a\",true]}}][g|{}]"}});
}

TEST(CallFormats, Generic) {
  check(Format::kGeneric,
        {{"{\"tool_calls\": [{\"name\": \"f\", \"arguments\": {\"a\": {}}}, {\"name\": \"g\", \"arguments\": {}}]}",
          "[f|{\"a\": {}}][g|{}]"},
         {"I look.\n{\"tool_calls\": [{\"name\": \"f\"}]}\n", "I look.[f|{}]"},
         {"{\"tool_calls\":[{\"name\":\"f\",\"arguments\":{\"a\":1}}]}", "[f|{\"a\":1}]"},
         {"{\n  \"tool_calls\" :\n  [\n    {\"name\": \"f\"}\n  ]\n}", "[f|{}]"},
         {"{\"tool_calls\": []}", "{\"tool_calls\": []}"},
         {"{ \"tool_calls\" 5}", "{ \"tool_calls\" 5}"},
         {"{ \"tool calls\": {\n{\"tool_calls\":[{\"name\":\"g\"}]}", "{ \"tool calls\": {[g|{}]"},
         {"{ \n", "{ \n"},
         {"{\"tool\": {}} {", "{\"tool\": {}} {"},
         {"{\"tool_calls\": [{\"name\": \"f\", \"arguments\": {\"a\": 1", "[f|{\"a\": 1"}});
}

TEST(CallFormats, AreKnownByTheTemplate) {
  for (const auto& [source, format] :
       std::vector<std::pair<const char*, Format>>{{"[TOOL_CALLS][AVAILABLE_TOOLS]", Format::kMistralList},
                                                   {"[TOOL_CALLS]{{ f }}[ARGS]", Format::kMistral},
                                                   {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", Format::kDeepSeek},
                                                   {"<|START_ACTION|>", Format::kCommand},
                                                   {"functools[", Format::kPhi4},
                                                   {"<tool_call>\n<function=f>\n<parameter=p>", Format::kQwenTags},
                                                   {"<tool_call>f\n<arg_key>", Format::kGlm},
                                                   {"<minimax:tool_call>", Format::kMiniMax},
                                                   {"{%- set dsml_token = '｜DSML｜' %}", Format::kDsml},
                                                   {"<|channel|>commentary to=functions.f", Format::kHarmony},
                                                   {"<|tool_call_begin|>", Format::kKimi},
                                                   {"<|tool_call>call:", Format::kGemma4},
                                                   {"<tool_call>{{ tool | tojson }}", Format::kHermes}})
    EXPECT_EQ(tool_call_format(source), format) << source;
}

// Values that Python writes, and what its json module makes of them.
TEST(CallFormats, LooseValues) {
  for (const auto& [text, json] : std::vector<std::pair<const char*, const char*>>{
           {" 'a' ", "\"a\""},
           {"\"a'\"", "\"a'\""},
           {"'\\n\\u00e9\\x41\\q'",
            "\"\\né"
            "A\\\\q\""},
           {"1e3", "1000.0"},
           {"()", "[]"},
           {"(1,)", "[1]"},
           {"{'a': [None, False], b: {}}", "{\"a\":[null,false],\"b\":{}}"}})
    EXPECT_EQ(json_of_loose(text), json) << text;
  for (const char* const text : {"", "'a", "[1", "{'a'}", "a b", "1 2", "{1: 2", "'\\u00'", "[1 2]"})
    EXPECT_FALSE(json_of_loose(text)) << text;
  EXPECT_FALSE(json_of_loose(std::string(5000, '[')));
}

}  // namespace
}  // namespace gabbro::text::call_formats_test
