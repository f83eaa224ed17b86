// A slab gives out pieces, the smallest gap first, and puts together what comes back.
#include "backends/gpu/memory/slab.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace gabbro::gpu {
namespace {

std::array<std::byte, 4096> storage;

std::ptrdiff_t offset(void* piece) { return static_cast<std::byte*>(piece) - storage.data(); }

TEST(Slab, TakesTheSmallestGapThatIsLargeEnough) {
  Slab slab(storage.data(), storage.size());
  void* const a = slab.take(1024);
  void* const b = slab.take(256);
  void* const c = slab.take(512);
  void* const d = slab.take(256);
  EXPECT_EQ(offset(d), 1792);
  slab.release(a, 1024);
  slab.release(c, 512);
  EXPECT_EQ(slab.take(512), c);
  EXPECT_EQ(slab.take(512), a);
  EXPECT_EQ(slab.take(2304), nullptr) << "2048 bytes are left at the end, and 512 elsewhere";
  EXPECT_EQ(offset(slab.take(2048)), 2048);
  slab.release(b, 256);
}

TEST(Slab, IsWholeAgainInWhateverOrderPiecesComeBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Slab slab(storage.data(), storage.size());
    std::vector<std::pair<void*, size_t>> pieces;
    for (int step = 0; step < 200; ++step) {
      const size_t bytes = Slab::rounded(1 + random() % 1000);
      if (void* piece = slab.take(bytes); piece != nullptr && random() % 2 == 0) {
        pieces.emplace_back(piece, bytes);
      } else if (piece != nullptr) {
        slab.release(piece, bytes);
      } else if (!pieces.empty()) {
        const size_t which = random() % pieces.size();
        slab.release(pieces[which].first, pieces[which].second);
        pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(which));
      }
      EXPECT_EQ(slab.unused(), pieces.empty());
    }
    for (const auto& [piece, bytes] : pieces) slab.release(piece, bytes);
    EXPECT_TRUE(slab.unused());
    EXPECT_EQ(slab.take(storage.size()), storage.data());
  }
}

TEST(Slab, RoundsToWherePiecesBegin) {
  EXPECT_EQ(Slab::rounded(1), 256U);
  EXPECT_EQ(Slab::rounded(256), 256U);
  EXPECT_EQ(Slab::rounded(257), 512U);
}

}  // namespace
}  // namespace gabbro::gpu
