// Whether copies and kernels run at the same time on the device that GABBRO_DEVICE names: 1 GiB from pinned memory on
// the copy stream, and matrix products that take as long on the compute stream, each alone and both together. Ideal:
// together as long as the longer one. Argument: MiB to copy (1024).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/backend/registry.h"
#include "src/backend/stream.h"

namespace gabbro {
namespace {

constexpr int64_t kSize = 4096;  // of square f16 matrices

double median_seconds(const std::function<void()>& body) {
  std::vector<double> all;
  for (int i = 0; i < 7; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(all);
  return all[all.size() / 2];
}

// y [kSize, kSize] = x · wᵀ
class Products {
 public:
  explicit Products(const std::shared_ptr<Device>& device) : stream_(device->state().compute_stream(*device)) {
    const abi::TensorView f16 = {.shape = {kSize, kSize},
                                 .strides = {kSize, 1},
                                 .rank = 2,
                                 .dtype = DType::f16,
                                 .layout = abi::Layout::kStrided};
    abi::TensorView f32 = f16;
    f32.dtype = DType::f32;
    views_ = {f32, f16, f32};
    kernel_ = find_kernel(
        *device, {.op = "linear", .inputs = views_.data(), .input_count = 2, .outputs = &views_[2], .output_count = 1});
    if (kernel_ == nullptr) throw failed("{} has no kernel for linear", device->facts().id);
    const std::vector<uint16_t> ones(static_cast<size_t>(kSize * kSize) * 2, 0x3c00);  // in f16
    for (abi::TensorView& view : views_) {
      const size_t bytes = dtype_bytes(view.dtype, static_cast<size_t>(kSize * kSize));
      view.data = memory_.emplace_back(device->allocate(bytes)).get();
      device->copy_to_device(view.data, ones.data(), bytes);
    }
    scratch_ = device->allocate(std::max<size_t>(kernel_->bound.scratch_bytes, 1));
  }

  void enqueue(int count) {
    const abi::Launch launch = {.kernel = kernel_->bound.handle,
                                .inputs = views_.data(),
                                .outputs = &views_[2],
                                .input_count = 2,
                                .output_count = 1,
                                .scratch = scratch_.get()};
    for (int i = 0; i < count; ++i) stream_.execute({&launch, 1});
  }
  Stream& stream() { return stream_; }
  const char* implementation() const { return kernel_->bound.implementation; }

 private:
  Stream& stream_;
  std::vector<abi::TensorView> views_;
  std::vector<std::shared_ptr<void>> memory_;
  std::shared_ptr<void> scratch_;
  std::shared_ptr<KernelHandle> kernel_;
};

void run(size_t bytes) {
  const std::shared_ptr<Device> device = open_device("auto");
  Stream& copies = device->state().copy_stream(*device);
  const std::shared_ptr<void> host = device->allocate_host(bytes), target = device->allocate(bytes);
  std::fill_n(static_cast<std::byte*>(host.get()), bytes, std::byte{7});
  Products products(device);
  products.enqueue(2);  // the first launch may choose between algorithms
  products.stream().synchronize();

  const double copy = median_seconds([&] {
    copies.copy_to_device(target.get(), host.get(), bytes);
    copies.synchronize();
  });
  constexpr int kSample = 8;
  const double sample = median_seconds([&] {
    products.enqueue(kSample);
    products.stream().synchronize();
  });
  const int count = std::max(1, static_cast<int>(copy / sample * kSample + 0.5));
  const double compute = median_seconds([&] {
    products.enqueue(count);
    products.stream().synchronize();
  });
  const double together = median_seconds([&] {
    copies.copy_to_device(target.get(), host.get(), bytes);
    products.enqueue(count);
    copies.synchronize();
    products.stream().synchronize();
  });
  const double longer = std::max(copy, compute);
  std::printf("device      %s, %s\n", device->facts().id, device->facts().name);
  std::printf("copy        %8.2f ms  %zu MiB from pinned memory, %.1f GB/s\n", copy * 1e3, bytes >> 20,
              static_cast<double>(bytes) / copy / 1e9);
  std::printf("products    %8.2f ms  %d of %ld x %ld x %ld (%s), %.1f TFLOP/s\n", compute * 1e3, count, kSize, kSize,
              kSize, products.implementation(), 2.0 * kSize * kSize * kSize * count / compute / 1e12);
  std::printf("together    %8.2f ms  %.2f of the longer, %.2f of the sum\n", together * 1e3, together / longer,
              together / (copy + compute));
}

}  // namespace
}  // namespace gabbro

int main(int argc, char** argv) {
  try {
    const long mib = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1024;
    if (mib < 1) throw gabbro::failed("'{}' is not a number of MiB", argv[1]);
    gabbro::run(static_cast<size_t>(mib) << 20);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stream_overlap: %s\n", error.what());
    return 1;
  }
}
