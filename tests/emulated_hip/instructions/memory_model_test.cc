#include "tests/emulated_hip/instructions/memory_model.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/emulated_hip/instructions/lds_races.h"

namespace emulated_hip {
namespace {

constexpr uint32_t kAll = ~0U, kSlots = 16, kWaves = 2;

class Model : public testing::Test {
 protected:
  uint64_t at() const { return reinterpret_cast<uint64_t>(&word_); }
  void begin(Chip chip) { model_.begin(chip, 1, kSlots, kWaves); }
  void store(uint32_t value) { model_.store(at(), value, kAll, Scope::kWave); }
  // The values of many loads, each with another state of the caches.
  std::set<uint32_t> loads(Scope scope) {
    std::set<uint32_t> values;
    for (int i = 0; i < 200; ++i) {
      model_.begin_load(scope);
      values.insert(model_.load(at()));
    }
    return values;
  }

  alignas(8) volatile uint32_t word_ = 5;
  MemoryModel model_;
};
using Values = std::set<uint32_t>;

TEST_F(Model, AStoreIsSeenByItsWaveOnlyUntilTheWaveWaits) {
  for (const Chip chip : {Chip::kRdna3, Chip::kRdna4}) {
    word_ = 5;
    begin(chip);
    model_.select(0, 0);
    store(7);
    EXPECT_EQ(loads(Scope::kWave), Values{7});
    model_.select(0, 1);
    EXPECT_EQ(loads(Scope::kAgent), Values{5});
    model_.wait_for_stores();  // the other wave's
    EXPECT_EQ(word_, 5U);
    model_.select(0, 0);
    model_.wait_for_stores();
    EXPECT_EQ(word_, 7U);
  }
}

TEST_F(Model, StoresOfPartsOfAWordAreMerged) {
  word_ = 0x11223344;
  begin(Chip::kRdna3);
  model_.select(0, 0);
  model_.store(at(), 0xaa00, 0xff00, Scope::kWave);
  EXPECT_EQ(loads(Scope::kWave), Values{0x1122aa44});
  model_.end();
  EXPECT_EQ(word_, 0x1122aa44U);
}

TEST_F(Model, APlainLoadMayBeOldUntilBothCachesAreInvalidated) {
  begin(Chip::kRdna3);
  model_.select(0, 0);
  store(7);
  model_.wait_for_stores();
  model_.select(1, 0);
  EXPECT_EQ(loads(Scope::kWave), (Values{5, 7}));
  EXPECT_EQ(loads(Scope::kAgent), Values{7});
  model_.invalidate(Scope::kBlock);
  EXPECT_EQ(loads(Scope::kWave), (Values{5, 7}));  // of GL1
  model_.invalidate(Scope::kAgent);
  EXPECT_EQ(loads(Scope::kWave), Values{7});
}

TEST_F(Model, AnL2CacheOfCdnaKeepsAStoreUntilItIsWrittenBack) {
  begin(Chip::kCdna3);
  model_.select(0, 0);
  store(7);
  model_.wait_for_stores();
  EXPECT_EQ(word_, 5U);
  model_.select(8, 0);  // of the same L2 cache
  EXPECT_EQ(loads(Scope::kAgent), Values{7});
  model_.select(1, 0);
  EXPECT_EQ(loads(Scope::kAgent), Values{5});
  model_.write_back();  // of another L2 cache
  EXPECT_EQ(word_, 5U);
  model_.select(0, 1);
  model_.write_back();
  EXPECT_EQ(word_, 7U);
  model_.select(1, 0);
  EXPECT_EQ(loads(Scope::kWave), (Values{5, 7}));
  model_.invalidate(Scope::kAgent);
  EXPECT_EQ(loads(Scope::kWave), Values{7});
}

TEST_F(Model, AStoreOfAgentScopePassesTheL2Cache) {
  begin(Chip::kCdna3);
  model_.select(0, 0);
  model_.store(at(), 7, kAll, Scope::kAgent);
  model_.wait_for_stores();
  EXPECT_EQ(word_, 7U);
}

TEST_F(Model, AnAtomicOperationComesAfterTheWavesOwnStores) {
  for (const Chip chip : {Chip::kRdna3, Chip::kCdna3}) {
    word_ = 5;
    begin(chip);
    model_.select(0, 0);
    store(7);
    model_.settle(at());
    EXPECT_EQ(word_, 7U);
    word_ = 8;
    model_.changed(at(), 7);
    EXPECT_EQ(loads(Scope::kWave), Values{8});
    model_.end();
    EXPECT_EQ(word_, 8U);
  }
}

TEST_F(Model, TimeMakesStoresVisible) {
  begin(Chip::kCdna3);
  model_.select(0, 0);
  store(7);
  for (int i = 0; i < 100000 && word_ == 5; ++i) model_.drift();
  EXPECT_EQ(word_, 7U);
}

TEST(LdsRaces, AreTwoWavesAtAByteWithNoBarrierBetween) {
  LdsRaces races;
  races.begin(2, 64);
  races.access(0, 0, 8, 4, LdsAccess::kWrite, 0x10);
  races.access(0, 0, 8, 4, LdsAccess::kRead, 0x14);  // the same wave
  races.access(0, 1, 12, 4, LdsAccess::kRead, 0x18);
  races.access(1, 1, 8, 4, LdsAccess::kRead, 0x18);  // another block
  races.barrier(0);
  races.access(0, 1, 8, 4, LdsAccess::kRead, 0x1c);
  races.barrier(0);
  races.access(0, 0, 16, 4, LdsAccess::kAtomic, 0x20);
  races.access(0, 1, 16, 4, LdsAccess::kAtomic, 0x20);
  EXPECT_EQ(races.found(), "");
  races.access(0, 1, 18, 1, LdsAccess::kRead, 0x24);
  EXPECT_EQ(races.found(),
            "race in LDS: wave 0 writes byte 18 (+0x20), wave 1 reads it (+0x24), no barrier between; 1 in all");
}

TEST(LdsRaces, ReadsBeforeAWriteCountToo) {
  LdsRaces races;
  races.begin(1, 64);
  races.access(0, 3, 0, 16, LdsAccess::kRead, 0x10);
  races.access(0, 4, 15, 1, LdsAccess::kWrite, 0x14);
  EXPECT_NE(races.found().find("wave 3 reads byte 15 (+0x10), wave 4 writes it (+0x14)"), std::string::npos);
}

}  // namespace
}  // namespace emulated_hip
