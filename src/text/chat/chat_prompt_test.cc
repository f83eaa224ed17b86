#include "src/text/chat/chat_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/text/chat/builtin_templates.h"

namespace gabbro::text {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ordered_json kUser = {{{"role", "user"}, {"content", " Hi there "}}};
const ordered_json kBoth = {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "Hi"}}};

ChatPrompt prompt(const std::string& source, const ordered_json& messages) {
  return render_prompt(ChatTemplate(source), messages, nullptr, true, nullptr);
}

constexpr const char* kParts =
    "{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}";
constexpr const char* kText = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}";

TEST(ChatPrompt, ContentIsTextOrPartsAsTheTemplateReadsIt) {
  EXPECT_EQ(prompt(kText, kUser).text.bytes(), "<user>Hi there");
  EXPECT_EQ(prompt(kParts, kUser).text.bytes(), "<user> Hi there ");
  EXPECT_EQ(prompt("{% for m in messages %}{{ m.content[0]['text'] }}{% endfor %}", kUser).text.bytes(), " Hi there ");
  EXPECT_EQ(prompt("{% for m in messages %}{% if m.content is string %}A{{ m.content }}{% else %}B{{ "
                   "m.content[0].text }}{% endif %}{% endfor %}",
                   kUser)
                .text.bytes(),
            "A Hi there ");
}

// A template may read the content of one role as text and that of another as parts.
TEST(ChatPrompt, EachMessageHasTheFormThatIsRead) {
  EXPECT_EQ(
      prompt("{{ messages[0].content | trim }}|{% for part in messages[1].content %}{{ part.text }}{% endfor %}", kBoth)
          .text.bytes(),
      "Be brief.|Hi");
  // An assistant's reasoning may be left out; nothing else changes its form for that.
  EXPECT_EQ(prompt("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}",
                   {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", "Hm."}}})
                .text.bytes(),
            "Hi");
}

TEST(ChatPrompt, EscapedAndChangedTextIsThere) {
  for (const char* source :
       {"{{ messages[0].content | upper }}", "{{ messages[0].content | tojson }}", "{{ messages | tojson }}",
        "{{ messages[0].content | escape }}", "{{ messages[0].content.replace(' ', '\n') }}"}) {
    const ChatPrompt made = prompt(source, {{{"role", "user"}, {"content", "a <b> \"c\""}}});
    EXPECT_THAT(made.lost, IsEmpty()) << source;
    EXPECT_THAT(made.notes, IsEmpty()) << source;
  }
}

TEST(ChatPrompt, LostTextIsNamed) {
  const ChatPrompt made = prompt("{% for m in messages %}{{ m.role }}{% endfor %}", kUser);
  EXPECT_THAT(made.lost, ElementsAre(0));
  try {
    require_user_text(made, kUser);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the chat template leaves out the text of message 1 (user)");
  }
  EXPECT_THAT(prompt("{{ messages[0].content[:4] }}", kUser).notes,
              ElementsAre("the chat template leaves out a part of message 1 (user)"));
  // An empty message loses nothing, and an assistant's thoughts may be left out.
  EXPECT_THAT(prompt("x", {{{"role", "user"}, {"content", " \n"}}}).lost, IsEmpty());
  EXPECT_THAT(prompt("{{ messages[1].content }}",
                     {{{"role", "assistant"}, {"content", "think"}}, {{"role", "user"}, {"content", "Hi"}}})
                  .lost,
              IsEmpty());
}

TEST(ChatPrompt, ASystemMessageWithoutAPlaceGoesToTheUser) {
  const std::string refuses =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
      "<{{ m.role }}>{{ m.content }}{% endfor %}";
  const std::string skips =
      "{% for m in messages %}{% if m.role == 'user' %}<user>{{ m.content }}{% endif %}{% endfor %}";
  for (const std::string& source : {refuses, skips}) {
    const ChatPrompt made = prompt(source, kBoth);
    EXPECT_EQ(made.text.bytes(), "<user>Be brief.\n\nHi");
    EXPECT_THAT(made.notes, ElementsAre(HasSubstr("no system message")));
    EXPECT_THAT(made.lost, IsEmpty());
  }
  EXPECT_THAT(prompt(kText, kBoth).notes, IsEmpty());
  try {
    prompt("{{ raise_exception('never') }}", kBoth);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("never"));
    EXPECT_THAT(error.hint(), HasSubstr("system message"));
  }
}

// As Mistral Nemo's: a system message is shown in the last message alone, if that is the user's. A probe keeps it.
TEST(ChatPrompt, ATemplateThatTakesASystemMessageMayLeaveItOut) {
  const std::string last =
      "{% for m in messages %}{% if m.role == 'user' %}[{% if loop.last and messages[0].role == 'system' %}"
      "{{ messages[0].content }}: {% endif %}{{ m.content }}]{% elif m.role != 'system' %}{{ m.content }}{% endif %}"
      "{% endfor %}";
  EXPECT_EQ(prompt(last, kBoth).text.bytes(), "[Be brief.: Hi]");
  ordered_json calls = kBoth;
  calls.push_back({{"role", "assistant"}, {"content", "call"}});
  calls.push_back({{"role", "tool"}, {"content", "4"}});
  const ChatPrompt made = prompt(last, calls);
  EXPECT_EQ(made.text.bytes(), "[Hi]call4");
  EXPECT_THAT(made.lost, ElementsAre(0));
  EXPECT_THAT(made.notes, IsEmpty());
  // It refuses something else: that is what is said, and nothing is merged.
  const std::string refuses_tools =
      "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}{{ m.content }}{% "
      "endfor %}";
  try {
    prompt(refuses_tools, calls);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no tools"));
    EXPECT_EQ(error.hint(), "");
  }
}

// The fixture is Jinja2's own; see make_template_fixtures.py.
TEST(ChatPrompt, TemplatesThatTakeTheMessagesAreRenderedAsByJinja2) {
  setenv("TZ", "UTC", 1);
  tzset();
  const std::string folder = GABBRO_SOURCE_DIR "/tests/data/templates/";
  const ordered_json file = ordered_json::parse(read_file(folder + "renders.json"));
  size_t compared = 0;
  for (const auto& [name, renders] : file["renders"].items()) {
    ChatTemplate chat(read_file(folder + name));
    chat.set_now(file["now"].get<std::time_t>());
    const auto takes = [&](const ordered_json& probe, const ordered_json& variables) {
      try {
        const std::string text = chat.render(probe, nullptr, true, variables).bytes();
        return std::all_of(probe.begin(), probe.end(), [&](const ordered_json& message) {
          return text.find(message["content"].get<std::string>()) != std::string::npos;
        });
      } catch (const Error&) {
        return false;
      }
    };
    for (const auto& [conversation, expected] : renders.items()) {
      ordered_json variables = file["conversations"][conversation];
      const ordered_json messages = variables["messages"];
      const std::string first = messages.empty() ? "user" : messages[0].value("role", "");
      const bool system = first == "system" || first == "developer";
      const ordered_json user = {{{"role", "user"}, {"content", "QUESTION"}}};
      const ordered_json both = {{{"role", first}, {"content", "RULES"}}, {{"role", "user"}, {"content", "QUESTION"}}};
      if (!expected.contains("text") || !takes(user, variables) || (system && !takes(both, variables))) continue;
      const ChatPrompt made =
          render_prompt(chat, messages, variables["tools"], variables["add_generation_prompt"].get<bool>(), variables);
      EXPECT_EQ(made.text.bytes(), expected["text"].get<std::string>()) << name << " " << conversation;
      ++compared;
    }
  }
  EXPECT_GT(compared, 200u);
}

TEST(ChatPrompt, ToolsThatATemplateDoesNotShowAreSeen) {
  const ordered_json tools = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  const auto shows = [&](const char* source) { return shows_tools(ChatTemplate(source), kUser, tools, nullptr); };
  EXPECT_TRUE(shows("{{ messages[0].content }}{{ tools[0].function.name }}"));
  EXPECT_TRUE(shows("{{ messages[0].content }}{% if tools %}!{% endif %}"));
  EXPECT_FALSE(shows(kText));
}

// Text that a template writes, and text that it was given.
TEST(ChatTemplate, RolesOfTheProtocolMayBecomeControlTokensAndNoOthers) {
  const auto spans = [](const char* role) {
    const ChatTemplate made("{{ '<|' + messages[0].role + '|>' }}{{ messages[0].content }}{{ bos_token }}{{ x }}");
    return made.render({{{"role", role}, {"content", "C"}}}, nullptr, true, {{"bos_token", "<s>"}, {"x", "<s>"}})
        .spans();
  };
  EXPECT_EQ(spans("user"), (std::vector<jinja::InputSpan>{{8, 9, 0}, {12, 15, jinja::kOtherInput}}));
  EXPECT_EQ(spans("im_end"),
            (std::vector<jinja::InputSpan>{{2, 8, jinja::kOtherInput}, {10, 11, 0}, {14, 17, jinja::kOtherInput}}));
}

TEST(BuiltinTemplates, EachKeepsAllText) {
  const ordered_json talk = {{{"role", "system"}, {"content", "Sys."}},
                             {{"role", "user"}, {"content", "One"}},
                             {{"role", "assistant"}, {"content", "Two"}},
                             {{"role", "user"}, {"content", "Three"}}};
  ASSERT_GE(builtin_templates().size(), 25u);
  for (const BuiltinTemplate& known : builtin_templates()) {
    const ChatPrompt made = render_prompt(ChatTemplate(std::string(known.source)), talk, nullptr, true,
                                          {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    EXPECT_THAT(made.notes, IsEmpty()) << known.name;
    for (const char* text : {"Sys.", "One", "Two", "Three"})
      EXPECT_THAT(made.text.bytes(), HasSubstr(text)) << known.name;
  }
}

// As the models' own pages and tokenizer_config.json files have them.
TEST(BuiltinTemplates, WriteTheFormatsOfTheirModels) {
  const ordered_json talk = {{{"role", "system"}, {"content", "S"}},
                             {{"role", "user"}, {"content", "U"}},
                             {{"role", "assistant"}, {"content", "A"}},
                             {{"role", "user"}, {"content", "V"}}};
  const std::pair<const char*, const char*> kExpected[] = {
      {"chatml",
       "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
       "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
      {"llama3",
       "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
       "U<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>"
       "<|start_header_id|>user<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"llama2", "[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s><s>[INST] V [/INST]"},
      {"mistral-v7", "[SYSTEM_PROMPT] S[/SYSTEM_PROMPT][INST] U[/INST] A</s>[INST] V[/INST]"},
      {"mistral-v3", "[INST] S\n\nU[/INST] A</s>[INST] V[/INST]"},
      {"gemma",
       "<start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n"
       "<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n"},
      {"phi3",
       "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nV<|end|>\n<|assistant|>\n"},
      {"zephyr", "<|system|>\nS</s>\n<|user|>\nU</s>\n<|assistant|>\nA</s>\n<|user|>\nV</s>\n<|assistant|>\n"},
      {"deepseek3", "S\n\n<｜User｜>U<｜Assistant｜>A<｜end▁of▁sentence｜><｜User｜>V<｜Assistant｜>"},
      {"vicuna", "S\n\nUSER: U\nASSISTANT: A</s>\nUSER: V\nASSISTANT:"},
  };
  for (const auto& [name, expected] : kExpected) {
    const ChatTemplate made(std::string(*find_builtin_template(name)));
    EXPECT_EQ(made.render(talk, nullptr, true, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}).bytes(), expected)
        << name;
  }
}

}  // namespace
}  // namespace gabbro::text
