// Finds accesses of two waves of a block to the same byte of LDS, at least one a write, with no barrier between them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emulated_hip {

enum class LdsAccess : uint8_t { kRead, kWrite, kAtomic };

class LdsRaces {
 public:
  // A launch of blocks with `bytes` of LDS in `slots` slots.
  void begin(uint32_t slots, uint32_t bytes);
  void barrier(uint32_t slot) { ++epochs_[slot]; }  // all waves have come; also the begin of a block
  // `code` is the instruction's offset in the code object.
  void access(uint32_t slot, uint32_t wave, uint32_t at, uint32_t bytes, LdsAccess kind, uint32_t code);
  // The first race of the launch in one line; empty if there is none.
  std::string found() const;

 private:
  struct Byte {
    uint32_t written = 0, read = 0;  // epochs of the newest accesses
    uint32_t readers = 0;            // waves, in that epoch
    uint32_t writers = 0;
    uint32_t write_code = 0, read_code = 0;
    bool atomic = false;  // the writes
  };
  struct Race {
    uint32_t at, first_wave, first_code, second_wave, second_code;
    bool first_writes, second_writes;
  };
  void note(const Race& race);

  uint32_t bytes_ = 0;
  std::vector<uint32_t> epochs_;
  std::vector<Byte> state_;  // [slots][bytes]
  uint64_t races_ = 0;
  Race first_{};
};

}  // namespace emulated_hip
