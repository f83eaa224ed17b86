// For tests of this folder: whether texts obey a grammar, by its automaton.
#pragma once

#include <string>
#include <string_view>

#include "src/text/grammar/matcher.h"

namespace gabbro::text::grammar {

class TestGrammar {
 public:
  TestGrammar(OutputFormat::Kind kind, std::string source) : TestGrammar(OutputFormat{kind, std::move(source)}) {}
  explicit TestGrammar(const OutputFormat& format) : automaton_(compile_format(format)) {}

  bool accepts(std::string_view text) {
    const Automaton::State end = automaton_.next(automaton_.start(), text);
    return end != Automaton::kDead && automaton_.accepts(end);
  }
  // Whether a text of the grammar begins so.
  bool begins(std::string_view text) { return automaton_.next(automaton_.start(), text) != Automaton::kDead; }
  Automaton& automaton() { return automaton_; }

 private:
  Automaton automaton_;
};

// The message of the error with which the grammar is refused; empty: it is not.
inline std::string refusal(OutputFormat::Kind kind, std::string source) {
  try {
    compile_format({kind, std::move(source)});
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace gabbro::text::grammar
