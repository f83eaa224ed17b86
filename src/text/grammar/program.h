// A grammar as instructions of a pushdown machine that reads bytes; automaton.h runs them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/text/grammar/rules.h"

namespace gabbro::text::grammar {

struct Instruction {
  enum class Op : uint8_t {
    kBytes,   // reads a byte of the set `a`, goes on at `b`
    kSplit,   // goes on at `a` and at `b`
    kJump,    // goes on at `a`
    kCall,    // runs the body at `a`, then `b`
    kRepeat,  // runs the body at `a` `least` to `most` times, then `b`
    kReturn,  // ends a body; at the end of the root: the text may end
  };
  Op op;
  uint32_t a = 0, b = 0;
  int32_t least = 0, most = 0;
  bool is_tail = false;  // kCall: `b` returns at once, so that the body returns for both
};

struct Program {
  std::vector<Instruction> code;
  uint32_t start = 0;
  std::vector<ByteSet> sets;
  // Bytes that no set tells apart have one class.
  std::array<uint8_t, 256> classes{};
  std::vector<uint8_t> bytes;  // a byte of each class
};

// Throws bad_input as find_rule_facts(), and for a grammar that compiles to too many instructions.
Program compile_program(const Rules& rules, RuleId root);

}  // namespace gabbro::text::grammar
