// `random`: numbers of a counter.
#include "kernels/elementwise/random.h"

#include "backends/common/random_request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/strided.h"

namespace gabbro::gpu {
namespace {

class Random : public Kernel {
 public:
  Random(const abi::RandomRequest& random, const MakeContext& context) : random_(random) {
    implementation = "random_" + std::string(abi::distribution_name(random.distribution));
    function_ = context.function(implementation);
    bytes = 4.0 * static_cast<double>(random.count);
    flops = 10.0 * static_cast<double>(random.count);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    run(function_, flat_grid((random_.count + 3) / 4, kElementThreads),
        RandomArgs{.key = input<u32>(launch, 0),
                   .y = output<void>(launch, 0),
                   .total = random_.count,
                   .low = random_.low,
                   .range = random_.range});
  }

 private:
  abi::RandomRequest random_;
  const api::Function* function_;
};

}  // namespace

std::unique_ptr<Kernel> make_random(const abi::KernelRequest& request, const MakeContext& context) {
  abi::RandomRequest random;
  return read_random_request(request, random) ? std::make_unique<Random>(random, context) : nullptr;
}

}  // namespace gabbro::gpu
