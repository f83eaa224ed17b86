// The message for weights that are NaN or infinite.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quant/finite.h"

namespace gabbro {

inline Error damaged_tensor(const std::string& path, std::string_view name, const FoundValue& found,
                            std::span<const int64_t> shape) {
  return bad_input("{}: tensor {} has values that are not numbers; the file is damaged: {}", path, quote(name),
                   describe(found, shape));
}

}  // namespace gabbro
