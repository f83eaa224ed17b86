// Any bytes as a grammar in GBNF: an error, or an automaton in which each state that is reached can go on or end.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "src/base/error.h"
#include "src/text/grammar/matcher.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gabbro::text::grammar::Automaton;
  try {
    const std::string source(reinterpret_cast<const char*>(data), size);
    Automaton automaton(gabbro::text::grammar::compile_format({gabbro::OutputFormat::Kind::kGrammar, source}));
    Automaton::State state = automaton.start();
    for (size_t step = 0; step < 64; ++step) {
      // The first byte that may follow, from one on that depends on the input.
      const auto first = static_cast<uint8_t>(size > 0 ? data[step % size] : 0);
      Automaton::State next = Automaton::kDead;
      for (int i = 0; i < 256 && next == Automaton::kDead; ++i)
        next = automaton.next(state, static_cast<uint8_t>(first + i));
      if (next == Automaton::kDead && !automaton.accepts(state)) std::abort();
      if (next == Automaton::kDead) break;
      state = next;
    }
  } catch (const gabbro::Error&) {
  }
  return 0;
}
