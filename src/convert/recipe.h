// The recipe by which an interrupted conversion goes on: everything that decides the contents of the new file.
// Private to convert.cc.
#pragma once

#include <span>
#include <string>

#include "src/convert/convert.h"
#include "src/convert/target.h"

namespace gabbro::llm {

// One line: the settings, the header, the encoders of the targets, and the identities of the checkpoint's files.
std::string recipe_of(const Checkpoint& checkpoint, const ConvertOptions& options, const std::string& header,
                      std::span<const ConvertTarget> targets);

// Whether the checkpoint's files are still those that were opened.
bool is_unchanged(const Checkpoint& checkpoint);

}  // namespace gabbro::llm
