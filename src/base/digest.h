// A digest of bytes for finding damage. It is not a cryptographic one.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace gabbro {

// It has 64 bits, and differs for other bytes, another number of them and another `seed`. It takes four words at a
// time, which is as fast as memory.
inline uint64_t digest_of(std::span<const std::byte> bytes, uint64_t seed = 0) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  uint64_t lanes[4] = {seed + 1, seed + 2, seed + 3, seed + 4};
  const auto mix = [](uint64_t lane, uint64_t word) { return std::rotl((lane ^ word) * kFactor, 29); };
  size_t at = 0;
  for (; at + sizeof lanes <= bytes.size(); at += sizeof lanes) {
    uint64_t words[4];
    std::memcpy(words, bytes.data() + at, sizeof words);
    for (int i = 0; i < 4; ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  uint64_t digest = bytes.size();
  for (const uint64_t lane : lanes) digest = mix(digest, lane);
  for (; at < bytes.size(); ++at) digest = mix(digest, std::to_integer<uint64_t>(bytes[at]));
  return digest ^ digest >> 32;
}

}  // namespace gabbro
