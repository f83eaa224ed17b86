#include "src/backend/ranking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace gabbro {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;
constexpr int kCuda = 100, kRocm = 90, kOther = 50;

struct Candidate {
  std::string name;
  int32_t score;
  abi::DeviceFacts facts{};
};

Candidate device(const char* name, int score, int wave_size, bool integrated, uint64_t free_bytes) {
  Candidate candidate{.name = name, .score = score};
  candidate.facts.usable = true;
  candidate.facts.wave_size = wave_size;
  candidate.facts.integrated = integrated;
  candidate.facts.memory_free = free_bytes;
  return candidate;
}

std::string order(std::vector<Candidate> candidates) {
  std::ranges::stable_sort(candidates, {}, [](const Candidate& c) { return rank_of(c.facts, c.score); });
  std::string names;
  for (const Candidate& candidate : candidates) names += candidate.name + " ";
  return names;
}

TEST(Ranking, DiscreteThenIntegratedThenCpu) {
  const Candidate cpu = device("cpu", 0, 1, true, 60 * kGib), apu = device("apu", kRocm, 32, true, 20 * kGib),
                  rocm = device("rocm", kRocm, 32, false, 8 * kGib), cuda = device("cuda", kCuda, 32, false, 4 * kGib),
                  other = device("other", kOther, 32, false, 48 * kGib);
  EXPECT_EQ(order({cpu, apu, other, rocm, cuda}), "cuda rocm other apu cpu ");
}

TEST(Ranking, ASmallIntegratedGpuComesAfterTheCpu) {
  EXPECT_EQ(order({device("apu", kRocm, 32, true, kLeastIntegratedMemory - 1), device("cpu", 0, 1, true, kGib)}),
            "cpu apu ");
  EXPECT_EQ(order({device("cpu", 0, 1, true, kGib), device("apu", kRocm, 32, true, kLeastIntegratedMemory)}),
            "apu cpu ");
}

TEST(Ranking, AmongEqualsFreeMemoryInWholeGib) {
  EXPECT_EQ(order({device("small", kRocm, 32, false, 8 * kGib), device("large", kRocm, 32, false, 24 * kGib)}),
            "large small ");
  EXPECT_EQ(order({device("first", kRocm, 32, false, 8 * kGib), device("second", kRocm, 32, false, 8 * kGib + 5)}),
            "first second ");  // no order that changes from run to run
}

TEST(Ranking, WhatCannotBeUsedComesLast) {
  Candidate broken = device("broken", kCuda, 32, false, 80 * kGib);
  broken.facts.usable = false;
  EXPECT_EQ(order({broken, device("cpu", 0, 1, true, kGib)}), "cpu broken ");
}

}  // namespace
}  // namespace gabbro
