// Control tokens in the text that is searched for stop texts: they have no text, but stop texts may name them.
#pragma once

#include <string>
#include <vector>

#include "src/text/tokenizer.h"

namespace gabbro {

// Bytes that stand for a control token, and that no text contains.
std::string control_code(int32_t token);
std::string without_control_codes(std::string text);

// The stop texts, and the ones that name control tokens again with codes: models write them as tokens or, more rarely,
// as text. `origins` gets the index of the stop text that each one comes from.
std::vector<std::string> with_control_codes(std::vector<std::string> stops, const text::Tokenizer& tokenizer,
                                            std::vector<size_t>& origins);

}  // namespace gabbro
