#include "apps/cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "apps/cli/terminal.h"

namespace gabbro::cli {
namespace {

constexpr size_t kIndent = 30;  // of descriptions
constexpr size_t kNarrowestPage = 60, kWidestPage = 110;

// Columns of the page; 0: lines are not wrapped, so that a pipe can search them.
size_t page_width() {
  const size_t columns = terminal_columns();
  return columns == 0 ? 0 : std::clamp(columns, kNarrowestPage, kWidestPage);
}

// `text` with its lines after the first indented, none longer than `width`.
std::string wrapped(const std::string& text, size_t indent, size_t width) {
  if (width == 0) return text;
  std::string out;
  size_t column = indent;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const size_t length = end - at;
    if (column > indent && column + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out.append(text, at, length);
    column += length;
    at = end + 1;
  }
  return out;
}

std::string row(const std::string& heading, const std::string& description, size_t width) {
  std::string out = "  " + heading;
  if (out.size() + 2 > kIndent) {
    out += "\n" + std::string(kIndent, ' ');
  } else {
    out.resize(kIndent, ' ');
  }
  return out + wrapped(description, kIndent, width) + "\n";
}

std::string options_section(const char* title, const CommandFacts& command, bool arguments, size_t width) {
  std::string rows;
  for (const OptionFacts& option : command.options) {
    if (option.argument.empty() != arguments) rows += row(option_heading(option), described(option), width);
  }
  return rows.empty() ? "" : fmt::format("\n{}:\n{}", title, rows);
}

bool has_aliases(const CommandFacts& command) {
  return std::ranges::any_of(command.options, [](const OptionFacts& option) { return !option.aliases.empty(); });
}

}  // namespace

std::string option_remark(const OptionFacts& option) {
  std::string remark;
  const auto add = [&](const std::string& part) { remark += (remark.empty() ? "" : "; ") + part; };
  if (!option.values.empty() && option.value.find(option.values.front()) == std::string::npos) {
    if (option.description.find(option.values.front()) == std::string::npos)
      add(fmt::format("{}", fmt::join(option.values, ", ")));
  }
  if (!option.range.empty()) add(option.range);
  if (!option.default_value.empty()) add("default: " + option.default_value);
  return remark.empty() ? "" : "(" + remark + ")";
}

std::string described(const OptionFacts& option) {
  const std::string remark = option_remark(option);
  return option.description + (remark.empty() ? "" : " " + remark);
}

std::string option_heading(const OptionFacts& option) {
  std::string names = option.argument;
  for (const auto* list : {&option.short_names, &option.long_names}) {
    for (const std::string& name : *list) names += (names.empty() ? "" : ", ") + name;
  }
  return names + (option.takes_value && option.argument.empty() ? " " + option.value : "");
}

std::string usage_line(const CommandFacts& command) {
  std::string line = "gabbro" + (command.path.empty() ? "" : " " + command.path);
  if (!command.commands.empty()) line += " COMMAND";
  line += " [OPTIONS]";
  for (const OptionFacts& option : command.options) {
    if (option.argument.empty() && option.required) line += " " + option_heading(option);
  }
  for (const OptionFacts& option : command.options) {
    if (!option.argument.empty()) line += " " + (option.required ? option.argument : "[" + option.argument + "]");
  }
  return line;
}

std::string help_page(const CommandFacts& command) {
  const size_t width = page_width();
  std::string page = wrapped(command.description, 0, width) + "\n\nUsage: " + usage_line(command) + "\n";
  if (!command.commands.empty()) {
    page += "\nCommands:\n";
    for (const CommandFacts& below : command.commands) page += row(below.name, below.description, width);
  }
  page += options_section("Arguments", command, true, width);
  page += options_section("Options", command, false, width);
  if (has_aliases(command)) {
    page += "\n" +
            wrapped("Names that llama.cpp and Ollama give to these options are accepted too: man gabbro lists them.", 0,
                    width) +
            "\n";
  }
  if (!command.footer.empty()) page += "\n" + wrapped(command.footer, 0, width) + "\n";
  if (!command.examples.empty()) page += "\nExamples:\n";
  for (const std::string& example : command.examples) page += "  " + example + "\n";
  return page;
}

}  // namespace gabbro::cli
