// For the tests of the CPU's kernels: each test runs for every instruction set that this machine has, with one to three
// workers.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "backends/common/kernel_test.h"
#include "backends/common/request.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/pool.h"
#include "src/base/half.h"

namespace gabbro::cpu::test {

using namespace kernel_test;

// Null where the set has no kernel for the call.
inline std::unique_ptr<Kernel> make(const IsaTable& isa, const Call& call, int workers) {
  std::vector<abi::TensorView> in = views(call.inputs);
  std::vector<abi::TensorView> out = views(call.outputs);
  for (auto* list : {&in, &out}) {
    for (abi::TensorView& view : *list) view.data = nullptr;
  }
  const std::vector<int32_t> aliases = call.aliases();
  const abi::KernelRequest request{call.op,
                                   in.data(),
                                   static_cast<int32_t>(in.size()),
                                   out.data(),
                                   static_cast<int32_t>(out.size()),
                                   call.attributes.data(),
                                   static_cast<int32_t>(call.attributes.size()),
                                   aliases.data()};
  for (const KernelEntry& entry : isa.kernels) {
    if (!entry.has(call.op) || entry.in_place != abi::has_any_alias(request)) continue;
    if (auto kernel = entry.make(request, {.workers = workers})) return kernel;
  }
  return nullptr;
}

// Carries the call out; the scratch memory holds NaNs before, and a guard behind it must stay.
inline void run(const IsaTable& isa, const Call& call, ThreadPool& pool) {
  const auto kernel = make(isa, call, pool.workers());
  ASSERT_NE(kernel, nullptr) << isa.name << " has no kernel for this " << call.op;
  std::vector<abi::TensorView> in = views(call.inputs);
  std::vector<abi::TensorView> out = views(call.outputs);
  constexpr size_t kGuard = 64;
  std::vector<uint8_t> scratch(kernel->scratch_bytes + 64 + kGuard, 0xff);
  uint8_t* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  const abi::Launch launch{.kernel = kernel.get(),
                           .inputs = in.data(),
                           .outputs = out.data(),
                           .input_count = static_cast<int32_t>(in.size()),
                           .output_count = static_cast<int32_t>(out.size()),
                           .scratch = aligned};
  pool.run([&](Worker& worker) { kernel->run(launch, worker); });
  for (size_t i = 0; i < kGuard; ++i) {
    ASSERT_EQ(aligned[kernel->scratch_bytes + i], 0xff) << call.op << " wrote past its scratch memory";
  }
  EXPECT_FALSE(kernel->implementation.empty());
}

// Calls body(isa, pool) for each set that runs here and for one to three workers.
inline void for_each_isa(const std::function<void(const IsaTable&, ThreadPool&)>& body) {
  for (const IsaTable* isa : isa_tables()) {
    if (!isa->supported()) continue;
    for (int workers = 1; workers <= 3; ++workers) {
      SCOPED_TRACE(std::string(isa->name) + ", " + std::to_string(workers) + " workers");
      ThreadPool pool(workers, 2);
      body(*isa, pool);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace gabbro::cpu::test
