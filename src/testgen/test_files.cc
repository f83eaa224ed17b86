#include "src/testgen/test_files.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/jinja/from_json.h"
#include "src/jinja/template.h"
#include "src/testgen/embedded.h"

namespace gabbro::testgen {
namespace {

constexpr std::string_view kSeparator = "\n\n\n";  // between functions, as ruff formats them

struct Import {
  std::string_view line, use;  // `use`: the text that needs it
};

// In the order of isort; an empty line ends a group.
constexpr Import kImports[] = {
    {"import pathlib", "pathlib."},
    {"", ""},
    {"import pytest", "pytest."},
    {"import torch", "torch."},
    {"", ""},
    {"import caches", "caches."},
    {"import cards", "cards."},
    {"import case", "case."},
    {"import forms", "forms."},
    {"import generation", "generation."},
    {"import layers", "layers."},
    {"import losses", "losses."},
    {"import machine", "machine."},
    {"import mixed", "mixed."},
    {"import parity", "parity."},
    {"import probe", "probe."},
    {"import properties", "properties."},
    {"import recorded", "recorded."},
    {"import saving", "saving."},
    {"import sizes", "sizes."},
    {"import support", "support."},
    {"import training", "training."},
    {"from inputs import make_inputs", "make_inputs"},
};

// Whether `use` stands in the text as a separate word.
bool uses(std::string_view text, std::string_view use) {
  for (size_t at = text.find(use); at != std::string_view::npos; at = text.find(use, at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    if (!(before >= 'a' && before <= 'z') && !(before >= 'A' && before <= 'Z') && before != '_' && before != '.')
      return true;
  }
  return false;
}

// "memory" of a chunk that defines test_memory_leak and where "memory" is a check; empty: not a test.
std::string test_of(std::string_view chunk) {
  const size_t at = chunk.find("def test_");
  if (at == std::string_view::npos || (at > 0 && chunk[at - 1] != '\n')) return "";
  const std::string_view name = chunk.substr(at + 9);
  return std::string(name.substr(0, name.find('(')));
}

}  // namespace

std::string render(std::string_view name, const Json& values) {
  const jinja::Template source(embedded_file(std::string("templates/").append(name)));
  const jinja::Value value = jinja::from_json(values);
  std::string text = source.render(value.dict()).bytes();
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

std::string keep_checks(const std::string& text, const std::vector<std::string>& checks) {
  std::string kept;
  bool any = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(kSeparator, begin), text.size());
    const std::string chunk = text.substr(begin, end - begin);
    begin = end + kSeparator.size();
    const std::string test = test_of(chunk);
    const auto names = [&](const std::string& check) { return test == check || test.starts_with(check + "_"); };
    if (!test.empty() && std::ranges::none_of(checks, names)) continue;
    any = any || !test.empty();
    if (!kept.empty()) kept += kSeparator;
    kept += chunk;
  }
  if (!any) return "";
  return kept.ends_with('\n') ? kept : kept + "\n";
}

std::string add_imports(const std::string& text) {
  const std::string_view mark = "\n# imports\n";
  const size_t at = text.find(mark);
  if (at == std::string::npos) return text;
  const std::string body = text.substr(at + mark.size());
  std::string lines = "\n";
  for (const Import& import : kImports) {
    if (import.line.empty()) {
      if (!lines.ends_with("\n\n") && lines.size() > 1) lines += '\n';
    } else if (uses(body, import.use)) {
      lines.append(import.line).append("\n");
    }
  }
  return text.substr(0, at) + lines + body;
}

}  // namespace gabbro::testgen
