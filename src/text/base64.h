// Base64 (RFC 4648), as tokenizer.json holds binary data.
#pragma once

#include <string>
#include <string_view>

namespace gabbro::text {

// Throws bad_input that names `where` for other characters and incomplete groups.
std::string decode_base64(std::string_view text, const std::string& where);

std::string encode_base64(std::string_view bytes);

}  // namespace gabbro::text
