// `run --prompts`: many prompts at once, an answer for each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/cli/options.h"
#include "gabbro/engine/session.h"

namespace gabbro::cli {

struct BatchInput {
  std::string file;  // "-": standard input; empty: none
  int64_t parallel = 8;
};

// --prompts and --parallel.
void add_batch(Command command, BatchInput& input);

// The prompts of the file. Throws bad_input that names the line.
std::vector<std::string> read_prompts(const std::string& file);

// Answers all prompts. Prints a JSON object per line, in the order of the prompts, or with --json one document. Returns
// the exit code.
int answer_all(const std::shared_ptr<Engine>& engine, const std::vector<std::string>& prompts,
               const GenerationOptions& options, const CommonOptions& common);

}  // namespace gabbro::cli
