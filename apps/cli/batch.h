// `run --prompts`: many prompts at once, an answer for each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/cli/options.h"
#include "apps/cli/prompt_rows.h"
#include "src/engine/model_service.h"

namespace gabbro::cli {

struct BatchInput {
  std::string file;  // "-": standard input; empty: none
  int64_t parallel = 8;
};

// --prompts and --parallel.
void add_batch(Command command, BatchInput& input);

// Answers all lines of `file`. Prints a JSON object per line, in the order of the lines, or with --json one document; a
// line that cannot be answered has "error" there, and a line on stderr without --json. Returns the exit code: kFailed
// where there was such a line.
int answer_all(const std::shared_ptr<ModelService>& model, const std::string& file,
               const std::vector<PromptLine>& lines, const GenerationOptions& options, const CommonOptions& common);

}  // namespace gabbro::cli
