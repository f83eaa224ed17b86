#include "tests/emulated_hip/instructions/lds_races.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace emulated_hip {
namespace {

uint32_t first_of(uint32_t waves) { return static_cast<uint32_t>(std::countr_zero(waves)); }

}  // namespace

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
    const uint32_t writers = byte.written == epoch ? byte.writers : 0, readers = byte.read == epoch ? byte.readers : 0;
    const bool both_atomic = byte.atomic && kind == LdsAccess::kAtomic;
    if ((writers & ~me) != 0 && !both_atomic)
      note({i, first_of(writers & ~me), byte.write_code, wave, code, true, writes});
    if (writes && (readers & ~me) != 0) note({i, first_of(readers & ~me), byte.read_code, wave, code, false, true});
    if (writes) {
      byte.written = epoch;
      byte.writers = writers | me;
      byte.write_code = code;
      byte.atomic = kind == LdsAccess::kAtomic && (writers == 0 || byte.atomic);
    } else {
      byte.readers = readers | me;
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
