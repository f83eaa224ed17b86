// Modules of AMD's machine code.
#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/emulated_hip/interpreter.h"
#include "tests/emulated_hip/kernels.h"
#include "tests/emulated_hip/runtime.h"

namespace emulated_hip {
namespace {

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, '\t');) fields.push_back(field);
  return fields;
}

struct Facts {
  std::string name;
  size_t arg_bytes, block_memory, local_memory;
  uint32_t threads, registers;
};

// Memory that kernels may touch: of all devices, and pinned memory of the host.
std::vector<uint64_t> ranges_of(Runtime& runtime) {
  const std::lock_guard lock(runtime.mutex);
  std::map<uint64_t, uint64_t> ranges;
  for (const auto& [begin, allocation] : runtime.memory.all()) {
    if (allocation.kind != MemoryKind::kRange) {
      ranges[begin] = begin + allocation.bytes;
      continue;
    }
    uint64_t end = 0;  // of the piece ahead
    uint64_t* last = nullptr;
    for (const auto& [offset, bytes] : allocation.pieces) {
      if (last != nullptr && offset == end) {
        *last += bytes;
      } else {
        last = &(ranges[begin + offset] = begin + offset + bytes);
      }
      end = offset + bytes;
    }
  }
  for (const auto& [begin, bytes] : runtime.registered) ranges[begin] = begin + bytes;
  std::vector<uint64_t> pairs;
  for (const auto& [begin, end] : ranges) pairs.insert(pairs.end(), {begin, end});
  return pairs;
}

class MachineKernel : public Kernel {
 public:
  MachineKernel(long module, const Facts& facts) : module_(module) {
    name = facts.name;
    threads = facts.threads;
    takes_fewer_threads = true;
    arg_bytes = facts.arg_bytes;
    block_memory = facts.block_memory;
    local_memory = facts.local_memory;
    registers = facts.registers;
  }
  LaunchError run(gabbro::gpu::Dim grid, uint32_t block_threads, uint32_t dynamic_memory,
                  const void* args) const override {
    Runtime& runtime = Runtime::get();
    const std::vector<uint64_t> ranges = ranges_of(runtime);
    std::string result;
    try {
      result = launch_code({.module = module_,
                            .kernel = name,
                            .grid = {grid.x, grid.y, grid.z},
                            .block_threads = block_threads,
                            .block_memory = dynamic_memory,
                            .args = {static_cast<const char*>(args), arg_bytes},
                            .ranges = ranges});
    } catch (const std::runtime_error& error) {
      return {.text = fmt::format("kernel {}: {}", name, error.what())};
    }
    if (result.empty()) return {};
    const std::vector<std::string> fields = fields_of(result);
    if (fields[0] != "fault") return {.text = fields.back()};
    const auto address = std::stoull(fields[1]);
    const std::lock_guard lock(runtime.mutex);
    return {.text = fields.back() + ": " + runtime.memory.describe(reinterpret_cast<const void*>(address)),
            .is_access = true};
  }

 private:
  const long module_;
};

class MachineCode : public KernelModule {
 public:
  MachineCode(std::string_view code, const std::string& target) : target_(target) {
    std::istringstream lines(load_code(code, target));
    for (std::string line; std::getline(lines, line);) {
      const std::vector<std::string> fields = fields_of(line);
      if (fields[0] == "error") throw std::runtime_error(fields.back());
      if (fields[0] == "module") number_ = std::stol(fields[1]);
      if (fields[0] != "kernel") continue;
      const auto number = [&](size_t i) { return std::stoul(fields[i]); };
      kernels_.push_back({.name = fields[1],
                          .arg_bytes = number(2),
                          .block_memory = number(4),
                          .local_memory = number(5),
                          .threads = static_cast<uint32_t>(number(3)),
                          .registers = static_cast<uint32_t>(number(6))});
    }
  }
  ~MachineCode() override { unload_code(number_); }
  MachineCode(const MachineCode&) = delete;
  MachineCode& operator=(const MachineCode&) = delete;

  std::unique_ptr<Kernel> find(const char* name) const override {
    for (const Facts& facts : kernels_) {
      if (facts.name == name) return std::make_unique<MachineKernel>(number_, facts);
    }
    return nullptr;
  }
  std::string description() const override { return "code for " + target_; }

 private:
  const std::string target_;
  long number_ = 0;
  std::vector<Facts> kernels_;
};

}  // namespace

std::unique_ptr<KernelModule> open_machine_code(std::string_view code, const std::string& target) {
  try {
    return std::make_unique<MachineCode>(code, target);
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "emulated HIP: code for {}: {}\n", target, error.what());
    throw Failure{hipErrorInvalidImage, error.what()};
  }
}

}  // namespace emulated_hip
