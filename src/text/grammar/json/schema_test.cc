// JSON Schema: what each keyword accepts, and what is refused. tests/grammar compares with other validators.
#include "src/text/grammar/json/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/text/grammar/test_grammar.h"

namespace gabbro::text::grammar {
namespace {

constexpr auto kSchema = OutputFormat::Kind::kJsonSchema;

struct SchemaCase {
  const char* schema;
  std::vector<const char*> valid, invalid;
};

const std::vector<SchemaCase>& schema_cases() {
  static const std::vector<SchemaCase> cases{
      {R"({})",
       {"1", "[]", R"({"a": [1, {"b": null}]})", "-1.5e3", R"("\u0001é\n")"},
       {"", "01", "{a:1}", "tru", R"("\u0041")"}},
      {R"({"type": "integer"})", {"0", "-12"}, {"1.5", "1e3", "01", "true"}},
      {R"({"type": ["null", "boolean"]})", {"null", "true", "false"}, {"0", "\"\""}},
      {R"({"type": "integer", "minimum": 3, "maximum": 1024})", {"3", "9", "99", "1024"}, {"2", "1025", "-5", "03"}},
      {R"({"type": "integer", "exclusiveMinimum": -10, "exclusiveMaximum": 10})", {"-9", "0", "9"}, {"-10", "10"}},
      {R"({"type": "integer", "minimum": 1.5, "maximum": 2.5})", {"2"}, {"1", "3"}},
      {R"({"type": "integer", "minimum": 4, "exclusiveMinimum": true})", {"5"}, {"4"}},
      {R"({"type": "number", "minimum": 0.5, "exclusiveMaximum": 1})",
       {"0.5", "0.75", "0.50", "0.999"},
       {"0.49", "1", "1.0", "0"}},
      {R"({"type": "number", "exclusiveMinimum": 0})", {"0.01", "1", "10.5"}, {"0", "0.0", "-1"}},
      {R"({"type": "number", "maximum": -2.25})", {"-2.25", "-3", "-2.250"}, {"-2.24", "0", "2.25"}},
      {R"({"type": "number", "multipleOf": 0.01})", {"1", "1.5", "0.07", "19.99"}, {"0.005", "1.111"}},
      {R"({"type": "integer", "multipleOf": 7, "minimum": 50})", {"56", "70", "700"}, {"7", "57"}},
      {R"({"minLength": 2, "maxLength": 3, "type": "string"})",
       {R"("ab")", R"("äöü")", R"("\"\\x")"},
       {R"("a")", R"("abcd")"}},
      {R"({"type": "string", "pattern": "^[a-z]+\\d"})", {R"("ab1")", R"("a1\n")"}, {R"("1")", R"("ab")"}},
      {R"({"type": "string", "pattern": "ab|cd$"})", {R"("xabx")", R"("xcd")"}, {R"("xcdx")"}},
      {R"({"type": "string", "pattern": "^a+$", "maxLength": 3, "minLength": 2})",
       {R"("aa")", R"("aaa")"},
       {R"("a")", R"("aaaa")"}},
      {R"({"type": "string", "format": "date"})", {R"("2024-02-29")"}, {R"("2023-02-29")", R"("2023-04-31")"}},
      {R"({"type": "string", "format": "date-time"})",
       {R"("2024-02-29T23:59:59.5Z")"},
       {R"("2024-02-29")", R"("2024-02-29T24:00:00Z")"}},
      {R"({"type": "string", "format": "uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"}},
      {R"({"type": "string", "format": "ipv4"})", {R"("192.168.0.1")"}, {R"("256.1.1.1")", R"("1.1.1")"}},
      {R"({"type": "string", "format": "ipv6"})",
       {R"("::")", R"("1:2:3:4:5:6:7:8")", R"("1::8")"},
       {R"("1:2")", R"("1::2::3")"}},
      {R"({"type": "string", "format": "email"})", {R"("a.b@example.org")"}, {R"("a@b")", R"("a b@c.de")"}},
      {R"({"type": "string", "format": "duration"})", {R"("P1DT2H")", R"("PT5M")", R"("P3W")"}, {R"("P")", R"("1D")"}},
      {R"({"enum": [1, 2.0, "a\nb", {"a": [true]}, null]})",
       {"1", "2", R"("a\nb")", R"({"a": [true]})", "null"},
       {"3", R"({"a":[]})"}},
      {R"({"enum": [1, 5, "x"], "minimum": 3})", {"5", R"("x")"}, {"1"}},
      {R"({"const": "a", "type": "string"})", {R"("a")"}, {R"("b")"}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
       {"[1]", "[1, 2,3]"},
       {"[]", "[1,2,3,4]", "[\"a\"]"}},
      {R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": {"type": "string"}})",
       {"[]", "[1]", "[1, 2, \"a\"]"},
       {"[2]", "[1,2,3]"}},
      {R"({"type": "array", "items": [{"const": 1}], "additionalItems": false, "minItems": 1})",
       {"[1]"},
       {"[]", "[1,1]"}},
      {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}, "required": ["b"]})",
       {R"({"a":1,"b":null})", R"({"b":null})", R"({"b": null, "c": [1]})"},
       {R"({"a":1})", R"({"b":1})", R"({"b":null,"b":1})", R"({"a":"x","b":null})"}},
      {R"({"type": "object", "properties": {"a": {}}, "additionalProperties": false})",
       {"{}", R"({"a":[]})"},
       {R"({"b":1})", R"({"a":1,})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2})",
       {R"({"x":1,"y":2})"},
       {R"({"x":""})", R"({"x":1,"y":2,"z":3})"}},
      {R"({"type": "object", "required": ["z"], "additionalProperties": {"type": "integer"}})",
       {R"({"z":1,"y":2})"},
       {R"({"y":2})", R"({"z":""})"}},
      {R"({"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": {"type": "string"}})",
       {R"({"xa":1,"b":"c"})"},
       {R"({"xa":"1"})", R"({"b":1})"}},
      {R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "minProperties": 1})",
       {R"({"ab":1})"},
       {"{}", R"({"A":1})"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}})",
       {"{}", R"({"b":1})", R"({"a":1,"b":1})"},
       {R"({"a":1})"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "dependencies": {"a": {"properties": {"b": {"const": 1}}}, "b": ["a"]}})",
       {R"({})", R"({"a": 0})", R"({"a": 0, "b": 1})"},
       {R"({"a": 0, "b": 2})", R"({"b": 1})"}},
      {R"({"type": "object", "dependentSchemas": {"a": {"properties": {"b": {"const": 1}, "a": {"const": 2}}}}})",
       {"{}", R"({"b": 1, "a": 2})", R"({"a": 2})", R"({"b": 2})"},
       {R"({"a": 1})", R"({"b": 2, "a": 2})"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "dependentSchemas": {"a": {"properties": {"b": {"const": 1}}}}})",
       {R"({"b":2})", R"({"a":1,"b":1})"},
       {R"({"a":1,"b":2})"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 2, "maxProperties": 2, "additionalProperties": false})",
       {R"({"a":1,"c":1})", R"({"b":1,"c":1})"},
       {R"({"a":1})", R"({"a":1,"b":1,"c":1})"}},
      {R"({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 5}]})", {"7", R"("x")"}, {"3", "null"}},
      {R"({"allOf": [{"minimum": 2}, {"maximum": 4}], "type": "integer"})", {"2", "4"}, {"1", "5"}},
      {R"({"allOf": [{"properties": {"a": {"minimum": 2}}}, {"properties": {"a": {"type": "integer"}}, "required": ["a"]}], "type": "object"})",
       {R"({"a":2})"},
       {R"({"a":1})", R"({"a":"x"})", "{}"}},
      {R"({"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]},
                     {"type": "object", "properties": {"k": {"const": "b"}, "v": {"type": "integer"}}, "required": ["k", "v"]}]})",
       {R"({"k":"a"})", R"({"k":"b","v":1})"},
       {R"({"k":"b"})", R"({"k":"c"})"}},
      {R"({"oneOf": [{"type": "integer", "maximum": 3}, {"type": "number", "exclusiveMinimum": 3}]})",
       {"3", "3.5", "4"},
       {"2.5"}},
      {R"({"$defs": {"tree": {"type": "object", "properties": {"v": {"type": "integer"}, "c": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
           "required": ["v", "c"], "additionalProperties": false}}, "$ref": "#/$defs/tree"})",
       {R"({"v":1,"c":[{"v":2,"c":[]}]})"},
       {R"({"v":1,"c":[{"v":2}]})"}},
      {R"({"$defs": {"a b/c": {"$anchor": "here", "const": 1}}, "anyOf": [{"$ref": "#/$defs/a%20b~1c"}, {"$ref": "#here"}]})",
       {"1"},
       {"2"}},
      {R"({"type": "object", "properties": {"a": false, "b": true}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"type": "object", "properties": {"a": {}}, "unevaluatedProperties": false})",
       {R"({"a":1})"},
       {R"({"b":1})"}},
      {R"({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"i": {"type": "integer"}}, "$ref": "#/definitions/i", "minimum": 5})",
       {"1"},
       {R"("x")"}},
  };
  return cases;
}

TEST(Schema, AcceptsExactlyTheValidDocuments) {
  for (const auto& [schema, valid, invalid] : schema_cases()) {
    TestGrammar grammar(kSchema, schema);
    for (const char* const text : valid) EXPECT_TRUE(grammar.accepts(text)) << schema << "\n" << text;
    for (const char* const text : invalid) EXPECT_FALSE(grammar.accepts(text)) << schema << "\n" << text;
  }
}

TEST(Schema, AllowsOneLineBreakAndTwentyBlanks) {
  TestGrammar grammar(kSchema, R"({"type": "object"})");
  EXPECT_TRUE(grammar.accepts("{\n    \"a\" : [\n 1 , 2]\n}"));
  EXPECT_FALSE(grammar.begins("{\n\n"));
  EXPECT_FALSE(grammar.begins("{" + std::string(21, ' ')));
  EXPECT_FALSE(grammar.begins(" {"));
  EXPECT_FALSE(grammar.begins("{} "));
}

TEST(Schema, ClosedObjectsHaveOnlyListedProperties) {
  const std::string schema =
      R"({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": true}}})";
  TestGrammar grammar(OutputFormat::Kind::kClosedJsonSchema, schema);
  EXPECT_TRUE(grammar.accepts(R"({"a": {"x": 1}})"));
  EXPECT_FALSE(grammar.begins(R"({"b")"));
  EXPECT_TRUE(TestGrammar(kSchema, schema).accepts(R"({"b": 1})"));
}

// As `unevaluatedProperties` false: properties that an alternative or another part lists are listed.
TEST(Schema, ClosedObjectsHaveThePropertiesOfTheirParts) {
  const auto closed = [](const char* schema) { return TestGrammar(OutputFormat::Kind::kClosedJsonSchema, schema); };
  TestGrammar alternatives = closed(R"({"type": "object", "anyOf": [
      {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false},
      {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]})");
  for (const char* const text : {R"({"a": 1})", R"({"b": 1})"}) EXPECT_TRUE(alternatives.accepts(text)) << text;
  for (const char* const text : {"{}", R"({"a": 1, "b": 1})", R"({"b": 1, "c": 1})"})
    EXPECT_FALSE(alternatives.accepts(text)) << text;
  TestGrammar parts = closed(R"({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"$ref": "#/$defs/b"}],
      "$defs": {"b": {"properties": {"b": {"type": "integer"}}, "patternProperties": {"^x": {}}}}, "required": ["a"]})");
  EXPECT_TRUE(parts.accepts(R"({"a": 1, "b": 1, "x1": 1})"));
  EXPECT_FALSE(parts.begins(R"({"a": 1, "c")"));
  TestGrammar open = closed(R"({"properties": {"a": {}}, "allOf": [{"additionalProperties": {"type": "integer"}}]})");
  EXPECT_TRUE(open.accepts(R"({"a": 1, "c": 1})"));
  EXPECT_FALSE(open.accepts(R"({"c": "x"})"));
  EXPECT_FALSE(closed(R"({"type": "object"})").begins("{\""));
}

TEST(Schema, RefusesWithTheJsonPointer) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"(x)", "the JSON schema is not JSON"},
      {R"([])", "#: expected a schema"},
      {R"({"properties": {"a/b": {"not": {}}}})", "#/properties/a~1b/not: the keyword is not supported"},
      {R"({"if": {}})", "#/if: the keyword is not supported"},
      {R"({"items": {"uniqueItems": true}})", "#/items/uniqueItems: the keyword is not supported"},
      {R"({"contains": {}})", "#/contains: the keyword is not supported"},
      {R"({"nonsense": 1})", "#/nonsense: the keyword is not supported"},
      {R"({"type": "text"})", "#/type: 'text' is not a type"},
      {R"({"minLength": -1})", "#/minLength: expected a whole number"},
      {R"({"multipleOf": 0})", "#/multipleOf: expected a number above 0"},
      {R"({"multipleOf": 12345.678})", "multipleOf: 12345.678 needs too large an automaton"},
      {R"x({"type": "string", "pattern": "a(?=b)"})x", "#/pattern: regular expression 'a(?=b)', position 4"},
      {R"({"type": "string", "format": "color"})", "#/format: the format 'color' is not supported"},
      {R"({"type": "string", "pattern": "(ab|cde)*f", "maxLength": 100000})", "#/maxLength: a pattern with its length"},
      {R"({"$ref": "https://example.org/x"})", "#/$ref: the reference 'https://example.org/x' leaves the document"},
      {R"({"$ref": "#/$defs/x"})", "#/$ref: the reference '#/$defs/x' names no schema"},
      {R"({"oneOf": [{"type": "integer"}, {"minimum": 3}]})", "#/oneOf: a value may match both 0 and 1"},
      {R"({"patternProperties": {"^a": {}, "b$": {}}})", "JSON schema, #: a name may match both"},
      {R"({"type": "string", "minLength": 3, "maxLength": 2})", "no text matches the grammar"},
      {R"({"type": "object", "required": ["a"], "properties": {"a": false}})", "no text matches the grammar"},
      {R"({"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}, "minItems": 1}}, "$ref": "#/$defs/a"})",
       "no text matches"},
  };
  for (const auto& [schema, message] : kCases)
    EXPECT_THAT(refusal(kSchema, schema), testing::HasSubstr(message)) << schema;
}

TEST(Schema, HostileSchemasEnd) {
  std::string deep, product = R"({"allOf": [)", wide = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 1000; ++i) deep += R"({"items": )";
  for (int i = 0; i < 16; ++i)
    product += std::string(i > 0 ? "," : "") + R"({"anyOf": [{"minimum": 1}, {"maxLength": 2}, {"minItems": 3}]})";
  for (int i = 0; i < 5000; ++i)
    wide += std::string(i > 0 ? "," : "") + "\"p" + std::to_string(i) + "\": {\"type\": \"integer\"}";
  const std::string counted =
      R"({"type": "object", "minProperties": 100, "maxProperties": 5000, )" + wide.substr(19) + "}}";
  const std::string loop =
      R"({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"})";
  EXPECT_THAT(refusal(kSchema, deep + "true" + std::string(1000, '}')), testing::HasSubstr("nested deeper than"));
  EXPECT_THAT(refusal(kSchema, product + "]}"), testing::HasSubstr("alternatives"));
  EXPECT_THAT(refusal(kSchema, counted), testing::Not(testing::IsEmpty()));
  EXPECT_EQ(refusal(kSchema, wide + "}}"), "");
  EXPECT_EQ(refusal(kSchema, loop), "");
  EXPECT_THAT(refusal(kSchema, R"({"pattern": "^(((a{1,999}){1,999}){1,999})$", "maxLength": 9999999})"),
              testing::Not(testing::IsEmpty()));
}

TEST(Numbers, DigitsAreBounded) {
  TestGrammar number(kSchema, R"({"type": "number"})"), integer(kSchema, R"({"type": "integer"})"),
      bounded(kSchema, R"({"type": "number", "minimum": 0, "maximum": 1})"),
      large(kSchema, R"({"type": "integer", "minimum": 1e30})"),
      huge(kSchema, R"({"type": "integer", "minimum": 1e300})");
  const std::string digits(19, '7'), fraction(17, '3');
  EXPECT_TRUE(number.accepts("-" + digits + "." + fraction + "e-308"));
  EXPECT_FALSE(number.begins(digits + "7"));
  EXPECT_FALSE(number.begins("0." + fraction + "3"));
  EXPECT_FALSE(number.begins("1e1000"));
  EXPECT_TRUE(integer.accepts(digits));
  EXPECT_FALSE(integer.begins(digits + "0"));
  EXPECT_TRUE(bounded.accepts("0." + fraction));
  EXPECT_FALSE(bounded.begins("0." + fraction + "3"));
  EXPECT_TRUE(large.accepts("1" + std::string(30, '0')));
  EXPECT_FALSE(large.accepts(digits));
  EXPECT_TRUE(huge.accepts("2" + std::string(300, '0')));
}

TEST(JsonObject, TakesAnyObject) {
  TestGrammar grammar(OutputFormat::Kind::kJsonObject, "");
  EXPECT_TRUE(grammar.accepts(R"({"a": {"b": [1, "x", null, {}]}, "c": -0.5e-3})"));
  EXPECT_FALSE(grammar.begins("["));
}

TEST(Choice, TakesOneOfTheTexts) {
  TestGrammar grammar(OutputFormat::Kind::kChoice, R"(["yes", "yesterday", "no"])");
  EXPECT_TRUE(grammar.accepts("yes"));
  EXPECT_TRUE(grammar.accepts("yesterday"));
  EXPECT_FALSE(grammar.accepts("yest"));
  EXPECT_FALSE(grammar.begins("maybe"));
  EXPECT_THAT(refusal(OutputFormat::Kind::kChoice, "[]"), testing::HasSubstr("the choices are not a list"));
  EXPECT_THAT(refusal(OutputFormat::Kind::kChoice, "[1]"), testing::HasSubstr("the choices are not a list"));
}

}  // namespace
}  // namespace gabbro::text::grammar
