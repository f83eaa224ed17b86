// Characters that got a property after the versions of Unicode whose tables `tokenizers` has: it treats
// them as unassigned, and so did the training of the models.
#pragma once

#include <cstdint>

namespace gabbro::text {

bool is_later_punctuation(uint32_t c);
bool is_later_combining(uint32_t c);   // of StripAccents
bool is_later_nonspacing(uint32_t c);  // of BertNormalizer
bool is_later_format(uint32_t c);
bool is_later_compatible(uint32_t c);  // NFKC and NFKD

}  // namespace gabbro::text
