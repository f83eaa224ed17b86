// Global memory as the waves of one launch see it, as late as AMD's memory model allows (LLVM's user guide for AMDGPU,
// "Memory Model"). A store is held until its wave waits for it. A plain load may give any value since the last time
// that a cache on its way was invalidated. On gfx942 and gfx950 each of eight L2 caches keeps the stores of its blocks
// until it is written back.
//
// A compute unit is a slot: blocks run in it in sequence. Names of caches are RDNA's. CDNA's L1 is `L0` here, and
// its L2 corresponds to RDNA's GL1: the second cache of a load, which an acquire of agent scope invalidates.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/emulated_hip/instructions/dword_table.h"

namespace emulated_hip {

enum class Chip : uint8_t { kRdna3, kCdna3, kRdna4 };  // in the instruction emulator's order

// The waves that must see an access.
enum class Scope : uint8_t { kWave, kBlock, kAgent, kSystem };

class MemoryModel {
 public:
  // A launch of blocks of `waves` waves in `slots` slots. If it is late, stores are held for long.
  void begin(Chip chip, uint64_t seed, uint32_t slots, uint32_t waves, bool late = false);
  void end();                                 // all stores become visible
  void select(uint32_t slot, uint32_t wave);  // whose instructions follow
  void leave(uint32_t slot);                  // its block has ended
  void drift();                               // some held stores become visible, as time passes

  // `at` is a multiple of 4. All loads between two calls of begin_load() meet the same state of the caches.
  void begin_load(Scope scope);
  uint32_t load(uint64_t at);
  void store(uint64_t at, uint32_t value, uint32_t mask, Scope scope);
  // Around an atomic operation on memory itself.
  void settle(uint64_t at);
  void changed(uint64_t at, uint32_t before);

  void wait_for_stores();
  void write_back();  // the L2 cache
  void invalidate(Scope up_to);

 private:
  struct Held {
    uint32_t value = 0;
    uint32_t mask = 0;   // bits of `value` that are stored
    uint32_t waves = 0;  // of CDNA: that stored them
    uint32_t unit = 0;
    bool through = false;  // past the L2 cache
  };
  // The newest values of a word, oldest first.
  struct Versions {
    static constexpr int kMost = 4;
    struct Version {
      uint64_t time;
      uint32_t value;
      uint32_t unit;  // that stored it
    };
    int count = 0;
    std::array<Version, kMost> version;
  };
  static constexpr uint32_t kCaches = 8;  // L2 caches of CDNA 3
  static constexpr uint32_t kNone = ~0U;

  bool is_cdna() const { return chip_ == Chip::kCdna3; }
  uint32_t cache() const { return slot_ % kCaches; }
  // The one that the wave is on, of RDNA's two in a work group processor.
  uint32_t unit() const { return is_cdna() ? slot_ : slot_ * 2 + wave_ % 2; }
  DwordTable<Held>& held_of(uint32_t slot, uint32_t wave) { return held_[is_cdna() ? slot : slot * waves_ + wave]; }
  bool is_drawn(uint32_t one_of) { return random_() % one_of == 0; }
  void commit(uint64_t at, const Held& stored);
  void commit_to_memory(uint64_t at, const Held& stored);
  void note_version(uint64_t at, uint32_t before, uint32_t after, uint32_t unit);
  uint32_t old_value(const Versions& versions) const;
  void drain(DwordTable<Held>& table, uint32_t one_of);

  Chip chip_ = Chip::kRdna3;
  uint32_t waves_ = 1, slot_ = 0, wave_ = 0;
  uint32_t rarely_ = 1;    // held stores become visible in one of this number of turns
  bool is_stale_ = false;  // the load that runs gives old values
  bool is_near_ = false;   // of the first cache, or of the second one
  bool is_coherent_ = false;
  uint64_t time_ = 0;                         // of the newest version
  std::vector<uint64_t> near_, far_;          // times of the invalidations, by unit and by slot or L2 cache
  std::vector<DwordTable<Held>> held_;        // not yet done
  std::array<DwordTable<Held>, kCaches> l2_;  // not yet written back
  DwordTable<Versions> versions_;
  std::minstd_rand random_;
};

}  // namespace emulated_hip
