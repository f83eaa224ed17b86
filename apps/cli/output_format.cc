#include "apps/cli/output_format.h"

#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/text/grammar/matcher.h"

namespace gabbro::cli {
namespace {

std::string schema_text(const std::string& value) {
  const size_t first = value.find_first_not_of(" \t\r\n");
  const bool is_json = first != value.npos && value[first] == '{';
  return is_json || value == "true" ? value : read_input(value);
}

}  // namespace

void add_output_format(Command command, FormatOptions& options) {
  Option schema =
      command.option("--schema", options.schema, "Answer with JSON that is valid by this JSON Schema; {}: any JSON")
          .placeholder("FILE|JSON")
          .alias("--json-schema,--json-schema-file")
          .file(FileUse::kInput);
  command
      .flag("--strict", options.strict,
            "Objects of --schema have only listed properties, unless the schema says otherwise")
      .needs(schema);
  command.option("--grammar", options.grammar, "Answer with a text of this grammar in GBNF, llama.cpp's language")
      .placeholder("FILE")
      .alias("--grammar-file")
      .file(FileUse::kInput);
  command.option("--regex", options.regex, "Answer with a text that this regular expression matches as a whole")
      .placeholder("TEXT");
}

OutputFormat read_output_format(const FormatOptions& options) {
  using Kind = OutputFormat::Kind;
  if (options.schema.has_value() + options.grammar.has_value() + options.regex.has_value() > 1)
    throw bad_input("--schema, --grammar and --regex exclude each other: give one of them");
  OutputFormat format;
  const Kind schema_kind = options.strict ? Kind::kClosedJsonSchema : Kind::kJsonSchema;
  if (options.schema) format = {.kind = schema_kind, .source = schema_text(*options.schema)};
  if (options.grammar) format = {.kind = Kind::kGrammar, .source = read_input(*options.grammar)};
  if (options.regex) format = {.kind = Kind::kRegex, .source = *options.regex};
  if (format.is_text()) return format;
  try {
    text::grammar::compile_format(format);
  } catch (const Error& error) {
    throw bad_input("{}: {}", options.schema ? "--schema" : options.grammar ? "--grammar" : "--regex", error.what());
  }
  return format;
}

}  // namespace gabbro::cli
