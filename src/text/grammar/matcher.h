// Constrained output: a text that is generated token by token and obeys a grammar.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "gabbro/output_format.h"
#include "src/text/grammar/mask_maker.h"

namespace gabbro::text::grammar {

// Throws bad_input that says what is wrong, or that is not supported, and where. Takes at most about 2 s of
// processor time.
std::shared_ptr<const Program> compile_format(const OutputFormat& format);

// A mask maker that all texts of one grammar use.
struct SharedMasks {
  SharedMasks(std::shared_ptr<const Program> program, std::shared_ptr<const TokenTrie> tokens)
      : maker(std::move(program), std::move(tokens)) {}
  std::mutex mutex;
  MaskMaker maker;
};

// The state of one text. A value: a copy goes on from the same state.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<SharedMasks> masks);

  // The text goes on with this token. False, without a change: the grammar does not allow it.
  bool accept(int32_t token);
  // The tokens that may follow, without those that end a generation. Throws bad_input for a grammar whose states become
  // too large.
  std::shared_ptr<const TokenMask> mask();
  bool may_end() const;
  bool is_complete() const;  // it has to end
  // The number of these tokens that the grammar allows in sequence.
  size_t allowed(std::span<const int32_t> tokens) const;
  // The bytes that have to follow, at most `most`.
  std::string forced_text(size_t most) const;

 private:
  Automaton::State after(Automaton::State state, int32_t token) const;

  std::shared_ptr<SharedMasks> masks_;
  Automaton::State state_;
};

// The grammars of one tokenizer: the last ones stay compiled. Thread-safe.
class GrammarSet {
 public:
  // `controls`: control tokens by their names, which have no bytes in `tokens`.
  explicit GrammarSet(std::shared_ptr<const TokenTrie> tokens, std::map<std::string, int32_t> controls = {})
      : tokens_(std::move(tokens)), controls_(std::move(controls)) {}
  // Throws as compile_format().
  Matcher matcher(const OutputFormat& format);

 private:
  struct Entry {
    OutputFormat format;
    std::shared_ptr<const Program> program;
    std::shared_ptr<SharedMasks> masks;
  };
  std::shared_ptr<SharedMasks> find(const OutputFormat& format);
  std::shared_ptr<const TokenTrie> tokens_with(const std::vector<std::string>& controls);

  const std::shared_ptr<const TokenTrie> tokens_;
  const std::map<std::string, int32_t> controls_;
  std::mutex mutex_;
  std::list<Entry> entries_;                                                // the one that was used last comes first
  std::map<std::vector<int32_t>, std::shared_ptr<const TokenTrie>> tries_;  // by the control tokens with bytes
};

}  // namespace gabbro::text::grammar
