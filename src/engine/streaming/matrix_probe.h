// Speeds of products with matrices, and of packing their rows.
#pragma once

#include <memory>
#include <span>

#include "src/backend/device.h"
#include "src/engine/streaming/link_probe.h"
#include "src/tensor/tensor.h"

namespace gabbro::streaming {

// Products of a CPU with a matrix that is flushed from its caches before each.
class Products {
 public:
  Products(Device& cpu, DType dtype, size_t bytes);

  // Bytes per second, as a file has them.
  double speed(int64_t tokens, double seconds);
  // Bytes per second that one thread packs, as a stream has it; 0: they are not packed.
  double pack_speed(double seconds);
  // Bytes as the device has them for a byte of a file.
  double device_ratio() const { return static_cast<double>(device_bytes_) / static_cast<double>(bytes_); }

 private:
  template <class Work>
  double median_speed(double seconds, const Work& work);

  Device& cpu_;
  DType dtype_;
  int64_t rows_ = 0;
  size_t bytes_ = 0, device_bytes_ = 0;
  std::shared_ptr<void> zeros_;
  Tensor weight_;
};

// Packs rows of what a read has brought, as a stream packs its pieces.
class PartPacker {
 public:
  PartPacker(Device& device, DType dtype, size_t piece_bytes);

  bool packs() const { return rows_ > 0 && weight_.state().spec.packed; }
  void pack(std::span<const std::byte> read);
  void pack_zeros(double seconds);
  // Bytes per second, as a file has them; 0: none were packed.
  double speed() const { return seconds_ > 0 ? static_cast<double>(bytes_) / seconds_ : 0; }

 private:
  static constexpr int64_t kColumns = 1024;

  Device& device_;
  DType dtype_;
  int64_t rows_ = 0;
  std::shared_ptr<void> zeros_;
  Tensor weight_;
  double seconds_ = 0;
  size_t bytes_ = 0;
};

// Evaluations per second of a product of 1 MiB that is in a cache.
double small_evaluations(Device& device);

// Bytes per second, as the device has them, of products with one token and a matrix that no cache of a GPU holds. The
// steps are enqueued without a wait in between, as a pass does it. Throws if the device has no room for it.
double gpu_multiply_speed(Device& device, DType dtype);

// Layers per second whose operations are all small: their launches, and kernels that are too short to fill the device.
double gpu_small_layers(Device& device);

}  // namespace gabbro::streaming
