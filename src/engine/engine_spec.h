// All that is needed to load a model and its source of drafts, as data: so that another process can load it, and load
// it again.
#pragma once

#include <cstdint>
#include <string>

#include "gabbro/engine/session.h"

namespace gabbro {

struct DraftSpec {
  std::string path;  // of a smaller model; empty: none
  LoadOptions options{};
  int tokens = 0;          // in one pass, at most; 0: as many as suit
  bool lookup = false;     // drafts from the text itself
  bool no_lookup = false;  // not even where weights are streamed
};

// The observer, the progress function and the chat template in the options belong to one process.
struct EngineSpec {
  std::string path;
  LoadOptions options{};
  DraftSpec draft{};
  std::string cache_folder{};  // for pages of texts that outlive the process; empty: none
  uint64_t cache_bytes = 0;    // of its files, at most
  bool deterministic = false;  // the tokens of a request are those that it gets alone, to the bit
};

}  // namespace gabbro
