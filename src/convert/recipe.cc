#include "src/convert/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "src/base/digest.h"
#include "src/base/file_identity.h"
#include "src/formats/quant/quant.h"

namespace gabbro::llm {
namespace {

// Differs where an encoder writes other blocks.
uint64_t digest_of_encoder(DType dtype) {
  constexpr int64_t kCount = 256;
  float values[kCount];
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;  // Numerical Recipes
    value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
  }
  std::vector<std::byte> blocks(dtype_bytes(dtype, kCount));
  quantize_row(dtype, values, blocks.data(), kCount);
  return digest_of(blocks);
}

}  // namespace

bool is_unchanged(const Checkpoint& checkpoint) {
  return std::ranges::equal(checkpoint.file_paths(), checkpoint.file_identities(), {}, file_identity);
}

std::string recipe_of(const Checkpoint& checkpoint, const ConvertOptions& options, const std::string& header,
                      std::span<const ConvertTarget> targets) {
  std::set<DType> formats;
  for (const ConvertTarget& target : targets) {
    if (target.dtype) formats.insert(*target.dtype);
  }
  std::string recipe = fmt::format("gabbro 2 {} {:x}", options.type->name, digest_of(std::as_bytes(std::span(header))));
  for (const DType dtype : formats) recipe += fmt::format(" {:x}", digest_of_encoder(dtype));
  if (options.importance != nullptr) recipe += fmt::format(" imatrix {:x}", options.importance->digest());
  recipe += describe_values(options.adapters);
  for (const std::string& identity : checkpoint.file_identities()) recipe += " " + identity;
  return recipe;
}

}  // namespace gabbro::llm
