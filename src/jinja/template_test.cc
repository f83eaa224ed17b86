#include "src/jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/jinja/from_json.h"

namespace gabbro::jinja {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

const std::string kFolder = GABBRO_SOURCE_DIR "/tests/data/templates/";

// The text, or "error: ..." with its message.
std::string render(const std::string& source, const ordered_json& variables = ordered_json::object(),
                   Template::Options options = {}) {
  try {
    Dict values;
    for (const auto& [name, value] : variables.items()) values.set(name, from_json(value));
    return Template(source).render(values, options).bytes();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return std::string("error: ") + error.what();
  }
}

// Fixtures hold {"text": ...} or {"error": ...}; what a template itself raises must come through word for word.
void expect_same(const ordered_json& expected, const std::string& actual, const std::string& what) {
  if (expected.contains("text")) {
    EXPECT_EQ(expected.at("text").get<std::string>(), actual) << what;
    return;
  }
  const std::string message = expected.at("error").get<std::string>();
  EXPECT_THAT(actual, HasSubstr("error: template: line ")) << what << "\n" << message;
  for (const std::string_view own : {"TemplateError: ", "UndefinedError: "}) {
    if (message.starts_with(own)) {
      EXPECT_THAT(actual, HasSubstr(message.substr(own.size()))) << what;
    }
  }
}

class Fixtures : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_F(Fixtures, SnippetsGiveWhatJinjaGives) {
  const ordered_json file = ordered_json::parse(read_file(kFolder + "snippets.json"));
  const Template::Options options{.now = file.at("now").get<std::time_t>()};
  ASSERT_GT(file.at("snippets").size(), 2000u);
  for (const ordered_json& row : file.at("snippets")) {
    const auto source = row.at("template").get<std::string>();
    expect_same(row, render(source, file.at("variables"), options), source);
  }
}

// Each would use all memory, all time or all of the stack of an interpreter without bounds. The bounds are lower here
// than by default, so that a build with sanitizers reaches them soon too.
TEST(Hostile, EndsWithAnErrorThatNamesTheLine) {
  const Template::Options options{
      .limits = {.steps = 1'000'000, .memory = size_t{64} << 20, .output = size_t{4} << 20}};
  std::string nested, chain = "{{ 1", dots = "{{ a";
  for (int i = 0; i < 5000; ++i) {
    nested += "(";
    chain += "+1";
    dots += ".a";
  }
  std::string blocks;
  for (int i = 0; i < 5000; ++i) blocks += "{% if 1 %}";
  for (const std::string& source : {
           std::string("\n{{ [1] * 10**9 }}"),
           std::string("\n{{ 'a' * 10**12 }}"),
           std::string("\n{{ range(10**12) }}"),
           std::string("\n{{ 9223372036854775807 + 1 }}"),
           std::string("\n{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
           std::string(
               "\n{% set n = namespace(s='abcdefgh') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}"),
           std::string("\n{% set n = namespace(s='&'|safe) %}{% for i in range(99) %}"
                       "{% set n.s = (n.s ~ n.s)|forceescape %}{% endfor %}"),
           std::string("\n{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}{% endfor %}"),
           std::string("\n{% set n = namespace(l=[1]) %}{% for i in range(200) %}{% set n.l = [n.l, n.l] %}{% endfor "
                       "%}{{ n.l }}"),
           std::string("\n{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
           std::string("\n{% set n = namespace() %}{% set n.n = n %}{{ n }}"),
           std::string("\n{{ '%999999999d' % 1 }}"),
           std::string("\n{{ '{:999999999}'.format(1) }}"),
           std::string("\n{{ 'a'|center(10**11) }}"),
           std::string("\n{{ 'a'|indent(10**11) }}"),
           "\n{{ " + nested,
           "\n" + chain + " }}",
           "\n" + dots + " }}",
           "\n" + blocks,
       }) {
    EXPECT_THAT(render(source, {{"a", nullptr}}, options), HasSubstr("error: template: line 2: "))
        << source.substr(0, 99);
  }
}

// Python's results at the ends of the 64-bit range.
TEST(Numbers, AtTheEndsOfTheirRange) {
  const std::string least = "(-9223372036854775807-1)";
  EXPECT_EQ(render("{{ " + least + "|round(-18) }}"), "-9000000000000000000");
  EXPECT_EQ(render("{{ " + least + "|round(-1) }}"),
            "error: template: line 1: integer overflow: integers are 64 bits wide here");
  EXPECT_EQ(render("{{ 9223372036854775807|round(-18) }} {{ -15|round(-1) }} {{ 25|round(-1) }}"),
            "9000000000000000000 -20 20");
  EXPECT_EQ(render("{{ range(" + least + ", 9223372036854775807, 9223372036854775807)|list }}"),
            "[-9223372036854775808, -1, 9223372036854775806]");
  for (const char* format : {"%.*d", "%*d"}) {
    EXPECT_EQ(render(std::string("{{ '") + format + "' % (9223372036854775807, -1) }}"),
              "error: template: line 1: width too big");
  }
}

// Each would take hours if it took time proportional to the product of two sizes.
TEST(Hostile, LongTextsTakeTimeProportionalToTheirSize) {
  const std::string text = "{% set a = 'a' * 6000000 %}{% set b = 'a' * 3000000 ~ 'b' %}";
  EXPECT_EQ(
      render(text + "{{ a.find(b) }} {{ a.rfind('b' ~ b) }} {{ a.count(b) }} {{ b in a }} {{ a.split(b)|length }} "
                    "{{ a.rsplit(b)|length }} {{ a.replace(b, '')|length }} {{ a.rpartition(b)[2]|length }}"),
      "-1 -1 0 False 1 1 6000000 6000000");
  EXPECT_EQ(render("{{ ('<' * 1000000)|striptags|length }} {{ ('<!--' * 250000)|striptags|length }}"),
            "1000000 1000000");
  EXPECT_EQ(render("{{ ('a' * 1000000)|wordwrap(2)|length }}"), "1499999");
  EXPECT_EQ(render("{{ ('a' * 1000000).strip('c' * 1000000 ~ 'a')|length }}"), "0");
}

// Texts that are only looked at, or quoted in the message of an undefined value, or in lower case for a comparison,
// count as well.
TEST(Hostile, ReadingLongTextsIsBounded) {
  const std::string text = "\n{% set a = 'a' * 500000 %}{% set b = 'a' * 500000 %}{% for i in range(20) %}";
  for (const char* use :
       {"{% if a|length %}{% endif %}", "{% if a == b %}{% endif %}", "{% if a < b %}{% endif %}",
        "{% if a in [b] %}{% endif %}", "{% if a in {1: 2} %}{% endif %}", "{% if a is lower %}{% endif %}",
        "{% if a.isalpha() %}{% endif %}", "{% if 'a'.find(a) %}{% endif %}", "{% if a[-1] %}{% endif %}"}) {
    EXPECT_THAT(render(text + use + "{% endfor %}", ordered_json::object(), {.limits = {.steps = 50'000}}),
                HasSubstr("error: template: line 2: the template takes more"))
        << use;
  }
  for (const char* use :
       {"{% set n = namespace(l=[]) %}{% for i in range(200) %}{% set n.l = n.l + [{}[a]] %}{% endfor %}",
        "{{ ([a] * 200)|sort|length }}"}) {
    EXPECT_THAT(render(std::string("\n{% set a = 'A' * 250000 %}") + use, ordered_json::object(),
                       {.limits = {.memory = size_t{16} << 20}}),
                HasSubstr("error: template: line 2: the template makes more"))
        << use;
  }
}

TEST(Errors, AreOneLine) {
  EXPECT_EQ(render("a\n\n{{ foo.bar }}"), "error: template: line 3: 'foo' is undefined");
  EXPECT_EQ(render("{{ raise_exception('two\nlines') }}"), "error: template: line 1: two lines");
}

// As Jinja2 renders them.
TEST(FromJson, IntegersHave64Bits) {
  const ordered_json input = {{"a", UINT64_MAX}, {"b", {{"c", uint64_t{1} << 63}}}, {"d", INT64_MIN}};
  EXPECT_EQ(render("{{ a }} {{ b }} {{ d }} {{ b|tojson }} {{ [a]|string }} {{ a|string|length }}", input),
            "18446744073709551615 {'c': 9223372036854775808} -9223372036854775808 {\"c\": 9223372036854775808} "
            "[18446744073709551615] 20");
  EXPECT_EQ(render("{{ a is integer }}{{ a is number }}{{ a == a }}{{ a == b.c }}{{ a in [a] }}{{ 1 if a }}", input),
            "TrueTrueTrueFalseTrue1");
  EXPECT_THAT(render("{{ a + 1 }}", input), HasSubstr("error: template: line 1: "));
}

TEST(FromJson, RejectsWhatAValueCannotHold) {
  ordered_json deep = 1;
  for (int i = 0; i < 500; ++i) deep = ordered_json::array({deep});
  EXPECT_THROW(from_json(deep), Error);
}

}  // namespace
}  // namespace gabbro::jinja
