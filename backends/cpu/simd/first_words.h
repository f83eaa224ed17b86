// The first elements of a vector of f16 or bf16, for sets without masks of 16-bit lanes: through a copy.
#pragma once

#include <cstdint>
#include <cstring>

namespace gabbro::cpu::GABBRO_ISA {

struct FirstWords {
  FirstWords() = default;
  FirstWords(const void* p, int count) { std::memcpy(words, p, static_cast<size_t>(count) * sizeof words[0]); }
  void copy_to(void* p, int count) const { std::memcpy(p, words, static_cast<size_t>(count) * sizeof words[0]); }

  alignas(32) uint16_t words[16] = {};
};

}  // namespace gabbro::cpu::GABBRO_ISA
