#include "tests/emulated_hip/instructions/lds_races.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace emulated_hip {

void LdsRaces::begin(uint32_t slots, uint32_t bytes) {
  bytes_ = bytes;
  epochs_.assign(slots, 1);
  state_.assign(size_t{slots} * bytes, {});
  races_ = 0;
}

void LdsRaces::note(const Race& race) {
  if (races_++ == 0) first_ = race;
}

void LdsRaces::access(uint32_t slot, uint32_t wave, uint32_t at, uint32_t bytes, LdsAccess kind, uint32_t code) {
  const uint32_t epoch = epochs_[slot], me = 1U << wave % 32;
  const bool writes = kind != LdsAccess::kRead;
  for (uint32_t i = at; i < std::min(at + bytes, bytes_); ++i) {
    Byte& byte = state_[size_t{slot} * bytes_ + i];
    const bool both_atomic = byte.atomic && kind == LdsAccess::kAtomic;
    if (byte.written == epoch && byte.writer != wave && !both_atomic)
      note({i, byte.writer, byte.write_code, wave, code, true, writes});
    const uint32_t others = byte.read == epoch ? byte.readers & ~me : 0;
    if (writes && others != 0)
      note({i, static_cast<uint32_t>(std::countr_zero(others)), byte.read_code, wave, code, false, true});
    if (writes) {
      byte.written = epoch;
      byte.writer = wave;
      byte.write_code = code;
      byte.atomic = kind == LdsAccess::kAtomic;
    } else {
      byte.readers = me | (byte.read == epoch ? byte.readers : 0);
      byte.read = epoch;
      byte.read_code = code;
    }
  }
}

std::string LdsRaces::found() const {
  if (races_ == 0) return {};
  const auto verb = [](bool writes) { return writes ? "writes" : "reads"; };
  return fmt::format(
      "race in LDS: wave {} {} byte {} (+0x{:x}), wave {} {} it (+0x{:x}), no barrier between; {} in all",
      first_.first_wave, verb(first_.first_writes), first_.at, first_.first_code, first_.second_wave,
      verb(first_.second_writes), first_.second_code, races_);
}

}  // namespace emulated_hip
