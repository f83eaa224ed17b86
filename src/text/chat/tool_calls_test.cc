// Calls of tools in texts: whole, cut anywhere, and broken with many errors.
#include "src/text/chat/tool_calls.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "src/text/chat/json_repair.h"

namespace gabbro::text::tool_calls_test {
namespace {

using Kind = ToolCallPiece::Kind;

// The pieces as one text: calls as [name|arguments], an incomplete one without the closing bracket.
std::string shown(const std::vector<ToolCallPiece>& pieces) {
  std::string out;
  for (const ToolCallPiece& piece : pieces) {
    if (piece.kind == Kind::kCall) out += "[" + piece.text + "|";
    if (piece.kind == Kind::kText || piece.kind == Kind::kArguments) out += piece.text;
    if (piece.kind == Kind::kEnd) out += "]";
  }
  return out;
}

std::string parsed(ToolCallFormat format, const std::string& text, const std::vector<size_t>& cuts = {}) {
  ToolCallParser parser(format, {{"f", {"s", "t"}}, {"g", {}}});
  std::vector<ToolCallPiece> pieces;
  const auto take = [&](std::vector<ToolCallPiece> more) { pieces.insert(pieces.end(), more.begin(), more.end()); };
  size_t from = 0;
  for (const size_t to : cuts) {
    take(parser.feed(std::string_view(text).substr(from, to - from)));
    from = to;
  }
  take(parser.feed(std::string_view(text).substr(from)));
  take(parser.finish());
  return shown(pieces);
}

struct Case {
  std::string text, expected;
};

const Case kHermes[] = {
    {"plain text", "plain text"},
    {" a\n < b <tool> </tool_call> \n", " a\n < b <tool> </tool_call> \n"},
    {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": null}]}}\n</tool_call>",
     "[f|{\"a\": [1, {\"b\": null}]}]"},
    {"I look.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", "
     "\"arguments\": {\"x\": \"\\u00e9\\\"\"}}\n</tool_call>\n Done. ",
     "I look.[f|{}][g|{\"x\": \"\\u00e9\\\"\"}]Done. "},
    // Members in another order, other members, no arguments, arguments in a string, "parameters".
    {"<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>", "[f|{\"a\": 1}]"},
    {"<tool_call>{\"id\": 7, \"name\": \"f\", \"x\": {\"arguments\": 1}, \"arguments\": {}, \"y\": [2]}</tool_call>",
     "[f|{}]"},
    {"<tool_call>{\"name\": \"f\"}</tool_call>", "[f|{}]"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", "[f|{}]"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", "[f|{\"a\": 1}]"},
    {"<tool_call>{\"name\": \"f\", \"parameters\": {\"a\": 1}}</tool_call>", "[f|{\"a\": 1}]"},
    {"<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>", "[unknown|{}]"},
    // Markers within strings are text of the string.
    {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call><tool_call>\"}}</tool_call>",
     "[f|{\"a\": \"</tool_call><tool_call>\"}]"},
    // Repaired.
    {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\ny\tz\", \"b\": True, \"c\": None,}}</tool_call>",
     "[f|{\"a\": \"x\\ny\\tz\", \"b\": true, \"c\": null}]"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"\\d \\' \\\n\", \"b\": [1, 2, ]}}</tool_call>",
     "[f|{\"a\": \"\\\\d ' \\\\\\n\", \"b\": [1, 2 ]}]"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {}}}</tool_call>ok", "[f|{}]ok"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {}", "[f|{}]"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {}}", "[f|{}]"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}</tool_call>",
     "[f|{}][g|{}]"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {}}<tool_call>{\"name\": \"g\"}", "[f|{}][g|{}]"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {}} trailing</tool_call>", "[f|{}]trailing</tool_call>"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {} \"x\"}</tool_call>", "[f|{}]\"x\"}</tool_call>"},
    // Text, not calls.
    {" <tool_call>call f</tool_call>", " <tool_call>call f</tool_call>"},
    {"<tool_call>", "<tool_call>"},
    {"a <tool_call>{\"name\": \"f\", \"argu", "a <tool_call>{\"name\": \"f\", \"argu"},
    {"<tool_call>{}</tool_call>", "<tool_call>{}</tool_call>"},
    {"<tool_call>{\"name\": 5}</tool_call>", "<tool_call>{\"name\": 5}</tool_call>"},
    {"<tool_call>{\"name\": \"\"}</tool_call>", "<tool_call>{\"name\": \"\"}</tool_call>"},
    {"<tool_call>{'name': 'f'}</tool_call>", "<tool_call>{'name': 'f'}</tool_call>"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
     "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>",
     "<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": nul{", "<tool_call>{\"name\": \"f\", \"arguments\": nul{"},
    {"<tool_call>no<tool_call>{\"name\": \"f\"}</tool_call>", "<tool_call>no[f|{}]"},
    {"<tool_call><tool_call>{\"name\": \"f\"}</tool_call>", "<tool_call>[f|{}]"},
    // The name was passed on: the rest is passed unchanged.
    {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops}}</tool_call>x", "[f|{\"a\": oops}}]x"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {a: 1}} < é </tool_call>", "[f|{a: 1}} < é ]"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"cut \\", "[f|{\"a\": \"cut \\"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 12", "[f|{\"a\": 12"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1, ", "[f|{\"a\": 1, "},
};

const Case kLlama3[] = {
    {"{\"name\": \"f\", \"parameters\": {\"a\": \"x\"}}", "[f|{\"a\": \"x\"}]"},
    {" {\"type\": \"function\", \"name\": \"f\", \"parameters\": {}} \n", "[f|{}]"},
    {"{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {\"b\": 2}}", "[f|{}][g|{\"b\": 2}]"},
    {"{\"name\": \"f\", \"parameters\": {}}\n{\"name\": \"g\", \"parameters\": {}};", "[f|{}][g|{}]"},
    {"{\"name\": \"f\", \"parameters\": {}} and more", "[f|{}]and more"},
    {"{\"name\": \"f\"}", "[f|{}]"},
    {"{\"name\": \"Alice\", \"parameters\": {}}", "{\"name\": \"Alice\", \"parameters\": {}}"},
    {"{\"name\": \"f\", \"age\": 5}", "{\"name\": \"f\", \"age\": 5}"},
    {"{\"city\": \"Rome\"}", "{\"city\": \"Rome\"}"},
    {"Call {\"name\": \"f\"}", "Call {\"name\": \"f\"}"},
    {"; {\"name\": \"f\"}", "; {\"name\": \"f\"}"},
    {"f.call(s=\"a, b\", n=[1])", "[f|{\"s\": \"a, b\", \"n\": [1]}]"},
    {"\nf.call() Done.", "[f|{}]Done."},
    {"f.call(s=\"a", "[f|"},
    {"f.calls()", "f.calls()"},
    {"h.call()", "h.call()"},
    {"f.cal", "f.cal"},
    {"Use f.call()", "Use f.call()"},
    {"{\"name\": \"f\", \"parameters\": {x}", "[f|{x}"},
    {"", ""},
    {" \n", " \n"},
};

TEST(ToolCalls, AreTheSameForEveryCut) {
  std::mt19937 random(5);
  const auto check = [&](ToolCallFormat format, std::span<const Case> cases) {
    for (const Case& one : cases) {
      EXPECT_EQ(parsed(format, one.text), one.expected) << one.text;
      std::vector<size_t> all;
      for (size_t at = 1; at < one.text.size(); ++at) {
        EXPECT_EQ(parsed(format, one.text, {at}), one.expected) << one.text << " cut at " << at;
        all.push_back(at);
      }
      EXPECT_EQ(parsed(format, one.text, all), one.expected) << one.text << " byte by byte";
      for (int round = 0; round < 20; ++round) {
        std::vector<size_t> cuts;
        for (const size_t at : all) {
          if (random() % 4 == 0) cuts.push_back(at);
        }
        EXPECT_EQ(parsed(format, one.text, cuts), one.expected) << one.text;
      }
    }
  };
  check(ToolCallFormat::kHermes, kHermes);
  check(ToolCallFormat::kLlama3, kLlama3);
  EXPECT_EQ(parsed(ToolCallFormat::kNone, kHermes[2].text), kHermes[2].text);
}

TEST(ToolCalls, AreAnnouncedByTheirNameAndFlow) {
  ToolCallParser parser(ToolCallFormat::kHermes, {});
  const auto fed = [&](const char* text) { return parser.feed(text); };
  using Pieces = std::vector<ToolCallPiece>;
  EXPECT_EQ(fed("Hi <tool"), (Pieces{{Kind::kText, "Hi"}}));
  EXPECT_EQ(fed("_call>{\"name\": \"f\", \"arguments\": "), Pieces());
  EXPECT_EQ(fed("{\"a"), (Pieces{{Kind::kCall, "f"}, {Kind::kArguments, "{\"a"}}));
  EXPECT_EQ(fed("\": \"b"), (Pieces{{Kind::kArguments, "\": \"b"}}));
  EXPECT_EQ(fed("\"}}"), (Pieces{{Kind::kArguments, "\"}"}, {Kind::kEnd, ""}}));
  EXPECT_EQ(fed("</tool_call>"), Pieces());
  EXPECT_EQ(parser.finish(), Pieces());
}

TEST(ToolCalls, OfALongTextTakeLinearTime) {
  std::string blanks(300'000, ' '), markers, strings = "<tool_call>{\"name\": \"f\", \"x\": \"";
  for (int i = 0; i < 30'000; ++i) markers += "<tool_call>{\"name\": ";
  for (int i = 0; i < 300'000; ++i) strings += "\\u0041";
  for (const std::string& text : {blanks, markers, strings}) EXPECT_EQ(parsed(ToolCallFormat::kHermes, text), text);
}

TEST(ToolCalls, FormatsAreKnownByTheTemplate) {
  EXPECT_EQ(tool_call_format("{{ '<tool_call>' }}{{ tool | tojson }}"), ToolCallFormat::kHermes);
  EXPECT_EQ(tool_call_format("Environment: ipython {\"name\": function name, \"parameters\": dictionary}"),
            ToolCallFormat::kLlama3);
  EXPECT_EQ(tool_call_format("<|im_start|>"), ToolCallFormat::kNone);
}

// Any value of JSON passes unchanged, whatever is cut off its end.
TEST(JsonRepair, PassesValidJson) {
  std::mt19937 random(3);
  using Json = nlohmann::ordered_json;
  const auto value = [&](auto&& self, int depth) -> Json {
    const auto pick = random() % (depth > 0 ? 7 : 5);
    if (pick == 0) return nullptr;
    if (pick == 1) return random() % 2 == 0;
    if (pick == 2) return static_cast<int>(random() % 2000) - 1000;
    if (pick == 3) return static_cast<double>(random() % 1000) * 1e-7;
    if (pick == 4) return std::string{"\n", random() % 2} + "é\"\\/" + std::to_string(random());
    Json made = pick == 5 ? Json::array() : Json::object();
    for (auto n = random() % 4; n > 0; --n) {
      if (pick == 5)
        made.push_back(self(self, depth - 1));
      else
        made["k\"" + std::to_string(random())] = self(self, depth - 1);
    }
    return made;
  };
  for (int round = 0; round < 300; ++round) {
    const std::string text = Json::array({value(value, 4)}).dump(round % 3 - 1, ' ', round % 2 == 0);
    JsonRepair repair;
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto step = repair.push(text[i], out);
      ASSERT_EQ(step, i + 1 < text.size() ? JsonRepair::Step::kMore : JsonRepair::Step::kEnded) << text << " at " << i;
      ASSERT_EQ(out + repair.rest(), text.substr(0, i + 1));
    }
  }
}

}  // namespace
}  // namespace gabbro::text::tool_calls_test
