// The instructions of AMD's GPUs that meet the memory model: loads, stores and atomic operations, waits, cache
// maintenance, LDS. All others are the instruction emulator's. A function gets the addresses of a wave's scalar
// registers, vector registers, nothing, LDS, scratch and accumulation registers; register r of lane l is word
// r * lanes + l. Encodings: AMD's ISA documents of RDNA 3, RDNA 4 and CDNA 3.
#include <cstring>

#include "tests/emulated_hip/instructions/machine.h"

namespace emulated_hip {
namespace {

constexpr uint32_t kExec = 126, kNull = 124, kPc = 256;

struct Wave {
  uint64_t scalars, vectors, nothing, lds, scratch, accumulators;

  uint32_t* scalar() const { return reinterpret_cast<uint32_t*>(scalars); }
  uint64_t pair(uint32_t r) const { return scalar()[r] | uint64_t{scalar()[r + 1]} << 32; }
  uint64_t pc() const { return pair(kPc); }
  const uint32_t* code() const { return reinterpret_cast<const uint32_t*>(pc()); }
  void skip(uint32_t bytes) const {
    const uint64_t next = pc() + bytes;
    scalar()[kPc] = static_cast<uint32_t>(next);
    scalar()[kPc + 1] = static_cast<uint32_t>(next >> 32);
  }
  uint64_t active(Chip chip) const { return chip == Chip::kCdna3 ? pair(kExec) : scalar()[kExec]; }
  void call(const CodeEntry& entry, const uint8_t* arguments) const {
    const uint64_t state[6] = {scalars, vectors, nothing, lds, scratch, accumulators};
    entry.inner(state[arguments[0]], state[arguments[1]], state[arguments[2]], state[arguments[3]], state[arguments[4]],
                state[arguments[5]]);
  }
};

// Operands of a GLOBAL instruction.
struct GlobalAccess {
  uint64_t active;
  uint32_t data, to, size;  // registers; bytes of the instruction
  uint32_t* registers;
  Scope scope;
  uint64_t address[64];
};

Scope scope_of(Chip chip, const uint32_t* code) {
  switch (chip) {
    case Chip::kCdna3:  // sc0 and sc1
      return static_cast<Scope>((code[0] >> 16 & 1) | (code[0] >> 25 & 1) << 1);
    case Chip::kRdna4:
      return static_cast<Scope>(code[1] >> 18 & 3);
    default:  // glc
      return (code[0] >> 14 & 1) != 0 ? Scope::kAgent : Scope::kWave;
  }
}

void decode(const Machine& machine, const Wave& wave, GlobalAccess& access) {
  const uint32_t* code = wave.code();
  const auto* vectors = reinterpret_cast<const uint32_t*>(wave.vectors);
  const bool is_rdna4 = machine.chip == Chip::kRdna4, is_cdna = machine.chip == Chip::kCdna3;
  const uint32_t lanes = machine.lanes();
  uint32_t address = 0, base = 0;
  int64_t offset = 0;
  bool accumulates = false;
  if (is_rdna4) {
    base = code[0] & 127;
    access.to = code[1] & 255;
    access.data = code[1] >> 23 & 255;
    address = code[2] & 255;
    offset = static_cast<int32_t>(code[2]) >> 8;
    access.size = 12;
  } else {
    offset = static_cast<int32_t>(code[0] << 19) >> 19;
    address = code[1] & 255;
    access.data = code[1] >> 8 & 255;
    base = code[1] >> 16 & 127;
    access.to = code[1] >> 24;
    accumulates = is_cdna && (code[1] >> 23 & 1) != 0;
    access.size = 8;
  }
  access.registers = reinterpret_cast<uint32_t*>(accumulates ? wave.accumulators : wave.vectors);
  access.active = wave.active(machine.chip);
  access.scope = scope_of(machine.chip, code);
  const bool has_base = is_cdna ? base != 127 : base < kNull;
  const uint64_t begin = has_base ? wave.pair(base) : 0;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if ((access.active >> lane & 1) == 0) continue;
    const uint64_t high = has_base ? 0 : uint64_t{vectors[(address + 1) * lanes + lane]} << 32;
    access.address[lane] = begin + (vectors[address * lanes + lane] | high) + static_cast<uint64_t>(offset);
  }
}

void load_bytes(MemoryModel& memory, uint64_t from, uint32_t count, uint8_t* to) {
  for (uint64_t at = from & ~uint64_t{3}; at < from + count; at += 4) {
    const uint32_t value = memory.load(at);
    for (uint64_t i = 0; i < 4; ++i) {
      if (at + i >= from && at + i < from + count) to[at + i - from] = static_cast<uint8_t>(value >> 8 * i);
    }
  }
}

void store_bytes(MemoryModel& memory, uint64_t to, uint32_t count, const uint8_t* from, Scope scope) {
  for (uint64_t at = to & ~uint64_t{3}; at < to + count; at += 4) {
    uint32_t value = 0, mask = 0;
    for (uint64_t i = 0; i < 4; ++i) {
      if (at + i < to || at + i >= to + count) continue;
      value |= uint32_t{from[at + i - to]} << 8 * i;
      mask |= uint32_t{0xff} << 8 * i;
    }
    memory.store(at, value, mask, scope);
  }
}

// Parameters: [1] bytes, [2] stores, [3] extends the sign, [4] 1: the lower half of a register, 2: the upper half.
void access_lane(MemoryModel& memory, const GlobalAccess& access, const uint8_t* parameters, uint32_t lane,
                 uint32_t lanes) {
  const uint32_t bytes = parameters[1], half = parameters[4];
  const bool stores = parameters[2] != 0;
  uint32_t* first = access.registers + (stores ? access.data : access.to) * lanes + lane;
  uint32_t words[4] = {};
  const uint32_t count = bytes < 4 ? 1 : bytes / 4;
  if (stores) {
    for (uint32_t i = 0; i < count; ++i) words[i] = first[i * lanes];
    if (half == 2) words[0] >>= 16;
    uint8_t data[16];
    std::memcpy(data, words, sizeof data);
    store_bytes(memory, access.address[lane], bytes, data, access.scope);
    return;
  }
  uint8_t data[16] = {};
  load_bytes(memory, access.address[lane], bytes, data);
  std::memcpy(words, data, sizeof words);
  if (parameters[3] != 0)
    words[0] = static_cast<uint32_t>(bytes == 1 ? static_cast<int8_t>(words[0]) : static_cast<int16_t>(words[0]));
  if (half == 1) words[0] = (*first & 0xffff0000) | (words[0] & 0xffff);
  if (half == 2) words[0] = (*first & 0xffff) | words[0] << 16;
  for (uint32_t i = 0; i < count; ++i) first[i * lanes] = words[i];
}

}  // namespace
}  // namespace emulated_hip

using emulated_hip::CodeEntry;
using emulated_hip::GlobalAccess;
using emulated_hip::LdsAccess;
using emulated_hip::Machine;
using emulated_hip::Scope;
using emulated_hip::Wave;
using u64 = uint64_t;

#pragma GCC visibility push(default)
extern "C" {

void emulated_gpu_global(u64 s, u64 v, u64 n, u64 l, u64 c, u64 a) {
  Machine& machine = Machine::get();
  const Wave wave = {s, v, n, l, c, a};
  const uint8_t* parameters = machine.entry_at(wave.pc()).parameters;
  GlobalAccess access;
  decode(machine, wave, access);
  const uint32_t lanes = machine.lanes();
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if ((access.active >> lane & 1) != 0) machine.require(access.address[lane], parameters[1]);
  }
  if (parameters[2] == 0) machine.memory.begin_load(access.scope);
  if (parameters[2] == 0 && access.scope == Scope::kSystem) ++machine.system_loads;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if ((access.active >> lane & 1) != 0) access_lane(machine.memory, access, parameters, lane, lanes);
  }
  wave.skip(access.size);
}

// The turn of the wave ends here: blocks count by atomic operations what others wait for. Parameters: [2] bytes.
void emulated_gpu_atomic(u64 s, u64 v, u64 n, u64 l, u64 c, u64 a) {
  Machine& machine = Machine::get();
  const Wave wave = {s, v, n, l, c, a};
  const CodeEntry& entry = machine.entry_at(wave.pc());
  GlobalAccess access;
  decode(machine, wave, access);
  const uint32_t lanes = machine.lanes(), words = entry.parameters[2] / 4;
  uint32_t before[64][2] = {};
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if ((access.active >> lane & 1) == 0) continue;
    machine.require(access.address[lane], entry.parameters[2]);
  }
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if ((access.active >> lane & 1) == 0) continue;
    for (uint32_t i = 0; i < words; ++i) machine.memory.settle(access.address[lane] + 4 * i);
    std::memcpy(before[lane], reinterpret_cast<const void*>(access.address[lane]), 4 * words);
  }
  constexpr uint8_t kAll[6] = {0, 1, 2, 3, 4, 5};
  wave.call(entry, kAll);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if ((access.active >> lane & 1) == 0) continue;
    for (uint32_t i = 0; i < words; ++i) machine.memory.changed(access.address[lane] + 4 * i, before[lane][i]);
  }
  machine.at_atomic = true;
}

// Buffer instructions and others that go to memory itself: the wave's stores are done before.
void emulated_gpu_direct(u64 s, u64 v, u64 n, u64 l, u64 c, u64 a) {
  Machine& machine = Machine::get();
  const Wave wave = {s, v, n, l, c, a};
  machine.memory.wait_for_stores();
  machine.memory.write_back();
  constexpr uint8_t kAll[6] = {0, 1, 2, 3, 4, 5};
  wave.call(machine.entry_at(wave.pc()), kAll);
}

// Parameters: [0] bytes of the instruction.
void emulated_gpu_wait(u64 s, u64 v, u64 n, u64 l, u64 c, u64 a) {
  Machine& machine = Machine::get();
  const Wave wave = {s, v, n, l, c, a};
  machine.memory.wait_for_stores();
  wave.skip(machine.entry_at(wave.pc()).parameters[0]);
}

// Parameters: [0] bytes of the instruction, [1] the scope up to which caches are invalidated, [2] the one up to which
// they are written back.
void emulated_gpu_caches(u64 s, u64 v, u64 n, u64 l, u64 c, u64 a) {
  Machine& machine = Machine::get();
  const Wave wave = {s, v, n, l, c, a};
  const uint8_t* parameters = machine.entry_at(wave.pc()).parameters;
  if (static_cast<Scope>(parameters[2]) >= Scope::kAgent) {
    machine.memory.write_back();
    ++machine.write_backs;
  }
  if (parameters[1] != 0) machine.memory.invalidate(static_cast<Scope>(parameters[1]));
  wave.skip(parameters[0]);
}

// An access to LDS, which the emulator does. Parameters: [0..5] its function's arguments, [6] LdsAccess, 4 if there are
// two offsets and 8 if they count 64 elements each, [7] bytes of an element.
void emulated_gpu_lds(u64 s, u64 v, u64 n, u64 l, u64 c, u64 a) {
  Machine& machine = Machine::get();
  const Wave wave = {s, v, n, l, c, a};
  const CodeEntry& entry = machine.entry_at(wave.pc());
  const uint32_t* code = wave.code();
  const uint32_t lanes = machine.lanes(), kind = entry.parameters[6], bytes = entry.parameters[7];
  const auto* address = reinterpret_cast<const uint32_t*>(v) + (code[1] & 255) * lanes;
  const uint64_t active = wave.active(machine.chip);
  const auto offset = static_cast<uint32_t>(wave.pc() - machine.image);
  const uint32_t step = bytes * ((kind & 8) != 0 ? 64 : 1);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if ((active >> lane & 1) == 0) continue;
    const auto note = [&](uint32_t at) {
      machine.lds.access(machine.slot, machine.wave, address[lane] + at, bytes, static_cast<LdsAccess>(kind & 3),
                         offset);
    };
    if ((kind & 4) == 0) {
      note(code[0] & 0xffff);
    } else {
      note((code[0] & 255) * step);
      note((code[0] >> 8 & 255) * step);
    }
  }
  wave.call(entry, entry.parameters);
}

// A lane that is off gives garbage. Parameters: [0..5] its function's arguments.
void emulated_gpu_permute(u64 s, u64 v, u64 n, u64 l, u64 c, u64 a) {
  Machine& machine = Machine::get();
  const Wave wave = {s, v, n, l, c, a};
  const CodeEntry& entry = machine.entry_at(wave.pc());
  const uint32_t lanes = machine.lanes(), data = wave.code()[1] >> 8 & 255, to = wave.code()[1] >> 24;
  const uint64_t active = wave.active(machine.chip);
  auto* registers = reinterpret_cast<uint32_t*>(v) + data * lanes;
  uint32_t before[64];
  std::memcpy(before, registers, lanes * 4);
  constexpr uint32_t kGarbage = 0x7fc0a5a5;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if ((active >> lane & 1) == 0) registers[lane] = kGarbage;
  }
  wave.call(entry, entry.parameters);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if ((active >> lane & 1) == 0 || data != to) registers[lane] = before[lane];
  }
}
}
#pragma GCC visibility pop
