// Pre-tokenizers of tokenizer.json: steps that cut a text into words, piece by piece.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/json_node.h"
#include "src/text/regex/text_pattern.h"

namespace gabbro::text {

struct Piece {
  std::string_view text;   // well-formed UTF-8, unless `as_bytes`
  bool at_origin = false;  // its first character comes from the first character of the whole input
  bool as_bytes = false;   // each byte stands for the character that spells it in GPT-2's alphabet
};

// Takes the pieces of a step: the next step, and at last the model.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void take(const Piece& piece) = 0;            // an empty piece is dropped
  virtual std::string_view keep(std::string text) = 0;  // until the present text is done
  virtual Regex::Matcher& matcher() = 0;                // of the step's regular expression
};

// May be used by several threads at once.
class SplitStep {
 public:
  virtual ~SplitStep() = default;
  virtual void split(const Piece& piece, PieceSink& out) const = 0;
  virtual const Regex* regex() const { return nullptr; }
  // True where the pieces are the matches of regex(), found in sequence, and the text between them: a search that
  // starts at the end of any match goes on like the search from the beginning.
  virtual bool isolates_matches() const { return false; }
  // A position at or after `from` where the text can be cut, so that the pieces of both parts are the pieces of the
  // whole text; npos: no such position is known.
  virtual size_t next_cut(std::string_view text, size_t from) const {
    (void)text, (void)from;
    return std::string_view::npos;
  }
  // True where the step passes the text on as one piece.
  virtual bool passes(std::string_view text) const {
    (void)text;
    return false;
  }
  // True of a step that spells bytes as characters of GPT-2's alphabet.
  virtual bool spells_bytes() const { return false; }
};

// The steps of a node {"type": ...}, sequences flattened, appended to `steps`. Throws bad_input that names the path.
void append_split_steps(const JsonNode& node, std::vector<std::unique_ptr<const SplitStep>>& steps);

// Replaces the last step, which spells bytes, by one that leaves this to the model (Piece::as_bytes).
void leave_bytes_to_model(std::vector<std::unique_ptr<const SplitStep>>& steps);

}  // namespace gabbro::text
