// The texts of `embed` and `rerank`: on the command line, or one a line of a file; and the loading of their model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/cli/options.h"
#include "gabbro/engine/text_encoder.h"

namespace gabbro::cli {

struct TextList {
  std::vector<std::string> words;
  std::string file;  // "-": standard input; empty: none
};

// The words that follow, called `name` ("TEXT"), and --file.
void add_texts(Command command, TextList& texts, const std::string& name, const std::string& description);
// The texts of the command line, then of the file; without either standard input.
std::vector<std::string> read_texts(const TextList& texts);

// With a progress bar, warnings, and a note where a GPU was passed over.
std::shared_ptr<TextEncoder> load_encoder(const std::string& model, const CommonOptions& common,
                                          const std::optional<std::string>& kv_type = std::nullopt);

}  // namespace gabbro::cli
