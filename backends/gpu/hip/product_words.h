// A shape of a matrix product as words of a command line, for the child process that tries it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/gpu/api.h"

namespace gabbro::gpu::hip {

std::vector<std::string> words_of(const api::GemmShape& shape);
// Nothing if these are not the words of a shape.
std::optional<api::GemmShape> shape_of_words(std::span<const char* const> words);

// Elements of a factor's memory, from its first element to its last: [batches] of [lines][depth].
int64_t extent_of(const api::Factor& factor, int64_t lines, int64_t depth, int64_t batches);
// Bytes of y, which libraries store wrongly from 2 GiB on.
int64_t result_bytes(const api::GemmShape& shape);

}  // namespace gabbro::gpu::hip
