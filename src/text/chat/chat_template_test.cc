#include "src/text/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro::text {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

const std::string kFolder = GABBRO_SOURCE_DIR "/tests/data/templates/";

// Fixtures hold {"text": ...} or {"error": ...}; what a template itself raises must come through word for word.
void expect_same(const ordered_json& expected, const std::string& actual, const std::string& what) {
  if (expected.contains("text")) {
    EXPECT_EQ(expected.at("text").get<std::string>(), actual) << what;
    return;
  }
  const std::string message = expected.at("error").get<std::string>();
  EXPECT_THAT(actual, HasSubstr("error: chat template: line ")) << what << "\n" << message;
  for (const std::string_view own : {"TemplateError: ", "UndefinedError: "}) {
    if (message.starts_with(own)) {
      EXPECT_THAT(actual, HasSubstr(message.substr(own.size()))) << what;
    }
  }
}

TEST(ChatTemplate, GivesWhatTransformersGives) {
  setenv("TZ", "UTC", 1);
  tzset();
  const ordered_json file = ordered_json::parse(read_file(kFolder + "renders.json"));
  ASSERT_GE(file.at("renders").size(), 25u);
  for (const auto& [name, renders] : file.at("renders").items()) {
    ChatTemplate chat(read_file(kFolder + name));
    chat.set_now(file.at("now").get<std::time_t>());
    for (const auto& [conversation, expected] : renders.items()) {
      ordered_json variables = file.at("conversations").at(conversation);
      std::string actual;
      try {
        actual = chat.render(variables.at("messages"), variables.at("tools"),
                             variables.at("add_generation_prompt").get<bool>(), variables)
                     .bytes();
      } catch (const Error& error) {
        actual = std::string("error: ") + error.what();
      }
      expect_same(expected, actual, name + " " + conversation);
    }
  }
}

}  // namespace
}  // namespace gabbro::text
