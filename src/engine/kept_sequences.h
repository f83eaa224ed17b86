// Sequences of requests that ended: conversations go on from them. Not the pages that sequences share by name (cache/).
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>

#include "src/engine/sequence.h"

namespace gabbro {

class KeptSequences {
 public:
  // The sequence of this tree that holds the longest beginning of a text, and not much besides; null: none does.
  std::unique_ptr<Sequence> take(std::span<const int32_t> text, const std::string& tree);

  // Keeps a sequence, and at most `most` in all. Null and empty sequences are ignored.
  void keep(std::unique_ptr<Sequence> sequence, size_t most);

  bool empty() const { return sequences_.empty(); }
  // Gives up the pages of the sequence that was kept first. False: none is kept.
  bool drop_oldest();

 private:
  std::list<std::unique_ptr<Sequence>> sequences_;  // the last ones first
};

}  // namespace gabbro
