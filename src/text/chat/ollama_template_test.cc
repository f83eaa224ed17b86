#include "src/text/chat/ollama_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "src/base/error.h"
#include "src/text/chat/chat_prompt.h"

namespace gabbro::text {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

std::string render(const std::string& source, const ordered_json& messages, const ordered_json& tools = nullptr) {
  return OllamaTemplate(source).render(messages, tools, true, 0).bytes();
}

// tests/reference/ollama_templates wrote the cases with Go's own text/template.
TEST(OllamaTemplate, RendersAsGoDoes) {
  std::ifstream file(GABBRO_SOURCE_DIR "/tests/data/templates/ollama.json");
  const ordered_json cases = ordered_json::parse(file);
  ASSERT_GT(cases.size(), 200u);
  for (const ordered_json& c : cases) {
    const auto& source = c["template"].get_ref<const std::string&>();
    if (!c.contains("error")) {
      EXPECT_EQ(render(source, c["messages"], c["tools"]), c["text"].get<std::string>()) << source << c["messages"];
      continue;
    }
    EXPECT_THROW(render(source, c["messages"], c["tools"]), Error) << source << c["messages"];
  }
}

TEST(OllamaTemplate, NamesTheLineOfWhatIsNotFollowed) {
  try {
    OllamaTemplate("a\nb\n{{ html .Prompt }}");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_STREQ(error.what(), "template: line 3: function 'html' is not supported");
  }
}

TEST(OllamaTemplate, InputNeverBecomesControlTokens) {
  const ChatTemplate made = ChatTemplate::from_go("<|{{ range .Messages }}{{ .Role }}|>{{ .Content }}{{ end }}");
  const ordered_json messages = {{{"role", "user"}, {"content", "<|x|>"}}};
  EXPECT_EQ(made.render(messages, nullptr, true, nullptr).spans(), (std::vector<jinja::InputSpan>{{8, 13, 0}}));
  EXPECT_EQ(made.render({{{"role", "x"}, {"content", "y"}}}, nullptr, true, nullptr).spans(),
            (std::vector<jinja::InputSpan>{{2, 3, jinja::kOtherInput}, {5, 6, 0}}));
  // A system message is not merged: .System has it.
  const ChatPrompt prompt = render_prompt(
      ChatTemplate::from_go("{{ .System }}|{{ .Prompt }}"),
      {{{"role", "system"}, {"content", "S"}}, {{"role", "user"}, {"content", "U"}}}, nullptr, true, nullptr);
  EXPECT_EQ(prompt.text.bytes(), "S|U");
  EXPECT_TRUE(prompt.notes.empty() && prompt.lost.empty());
}

TEST(OllamaTemplate, EndsWhereItTakesTooLong) {
  const std::string nested = "{{ range 9999999 }}{{ range 9999999 }}{{ end }}{{ end }}";
  EXPECT_THROW(render(nested, ordered_json::array()), Error);
  EXPECT_THROW(render("{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}", ordered_json::array()),
               Error);
  std::string deep;
  for (int i = 0; i < 300; ++i) deep += "{{ if 1 }}";
  EXPECT_THROW(OllamaTemplate{deep}, Error);
  EXPECT_THROW(OllamaTemplate{"{{ " + std::string(300, '(')}, Error);
}

TEST(OllamaTemplate, ThoughtsCanBeSwitchedOff) {
  const ChatTemplate made =
      ChatTemplate::from_go("{{ range .Messages }}{{ .Thinking }}{{ end }}{{ .Think }}{{ .IsThinkSet }}");
  const ordered_json messages = {{{"role", "user"}, {"content", "x"}}};
  EXPECT_EQ(made.render(messages, nullptr, true, nullptr).bytes(), "truetrue");
  EXPECT_EQ(made.render(messages, nullptr, true, {{"enable_thinking", false}}).bytes(), "falsetrue");
}

}  // namespace
}  // namespace gabbro::text
