// The CPU's kernels of each instruction set that this machine has, with one to three workers.
#include "backends/cpu/kernel_test_util.h"

namespace gabbro::kernel_test {
namespace {

class IsaTarget : public Target {
 public:
  IsaTarget(const cpu::IsaTable& isa, cpu::ThreadPool& pool) : isa_(isa), pool_(pool) {}
  bool takes(const Call& call) const override { return cpu::test::make(isa_, call, pool_.workers()) != nullptr; }
  void run(const Call& call) const override { cpu::test::run(isa_, call, pool_); }

 private:
  const cpu::IsaTable& isa_;
  cpu::ThreadPool& pool_;
};

}  // namespace

void for_each_target(const std::function<void(const Target&)>& body) {
  cpu::test::for_each_isa([&](const cpu::IsaTable& isa, cpu::ThreadPool& pool) { body(IsaTarget(isa, pool)); });
}

}  // namespace gabbro::kernel_test
