// The device that GABBRO_DEVICE names, through the contract: every tensor has device memory of its exact size.
#include <map>

#include "backends/common/kernel_test.h"
#include "src/backend/registry.h"

namespace gabbro::kernel_test {
namespace {

class DeviceTarget : public Target {
 public:
  bool takes(const Call& call) const override { return find(call) != nullptr; }

  void run(const Call& call) const override {
    const std::shared_ptr<KernelHandle> kernel = find(call);
    ASSERT_NE(kernel, nullptr) << device_->facts().id << " has no kernel for this " << call.op;
    std::map<Tensor*, std::shared_ptr<void>> memory;
    const auto place = [&](const std::vector<Tensor*>& tensors) {
      std::vector<abi::TensorView> all = views(tensors);
      for (size_t i = 0; i < all.size(); ++i) {
        const std::span<std::byte> host = tensors[i]->memory();
        std::shared_ptr<void>& on_device = memory[tensors[i]];
        if (on_device == nullptr) {
          on_device = device_->allocate(host.size());
          device_->copy_to_device(on_device.get(), host.data(), host.size());
        }
        all[i].data = static_cast<std::byte*>(on_device.get()) + tensors[i]->offset_bytes();
      }
      return all;
    };
    std::vector<abi::TensorView> in = place(call.inputs), out = place(call.outputs);
    const std::shared_ptr<void> scratch = device_->allocate(kernel->bound.scratch_bytes);
    const abi::Launch launch{.kernel = kernel->bound.handle,
                             .inputs = in.data(),
                             .outputs = out.data(),
                             .input_count = static_cast<int32_t>(in.size()),
                             .output_count = static_cast<int32_t>(out.size()),
                             .scratch = scratch.get()};
    execute(*device_, {&launch, 1}, nullptr);
    for (Tensor* tensor : call.outputs) {
      device_->copy_to_host(tensor->memory().data(), memory[tensor].get(), tensor->memory().size());
    }
    EXPECT_STRNE(kernel->bound.implementation, "");
  }

 private:
  std::shared_ptr<KernelHandle> find(const Call& call) const {
    std::vector<abi::TensorView> in = views(call.inputs), out = views(call.outputs);
    for (auto* list : {&in, &out}) {
      for (abi::TensorView& view : *list) view.data = nullptr;
    }
    const std::vector<int32_t> aliases = call.aliases();
    return find_kernel(
        *device_, {call.op, in.data(), static_cast<int32_t>(in.size()), out.data(), static_cast<int32_t>(out.size()),
                   call.attributes.data(), static_cast<int32_t>(call.attributes.size()), aliases.data()});
  }

  std::shared_ptr<Device> device_ = open_device("auto", {.threads = 2});
};

}  // namespace

void for_each_target(const std::function<void(const Target&)>& body) {
  static const DeviceTarget target;
  body(target);
}

}  // namespace gabbro::kernel_test
