// Facts about special tokens that GGUF files do not spell out and llama.cpp derives from the texts of the tokens:
// which end a generation, which are control tokens whatever their type says, which swallow white space around them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/text/models/string_table.h"
#include "src/text/vocabulary.h"

namespace gabbro::text {

// The parts of a prompt whose answer stands between two texts.
enum class FillInPart { kPrefix, kSuffix, kMiddle };
// The names that model families give to the token before a part.
std::span<const std::string_view> fill_in_names(FillInPart part);

// Fills in spec.eot and the like where the file is silent, adds to `attributes` (one per token), and returns the ids
// that end a generation, ascending.
std::vector<int32_t> derive_special_tokens(const StringTable& table, VocabularySpec& spec,
                                           std::vector<uint8_t>& attributes);

}  // namespace gabbro::text
