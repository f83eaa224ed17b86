#include "src/engine/streaming/link_probe.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/elementwise.h"
#include "gabbro/ops/neural.h"
#include "src/backend/stream.h"
#include "src/base/error.h"
#include "src/base/published_bandwidth.h"
#include "src/base/seconds_since.h"
#include "src/engine/streaming/link_cache.h"
#include "src/engine/streaming/matrix_probe.h"
#include "src/engine/streaming/weight_stream.h"

namespace gabbro::streaming {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.25;

const CheckpointTensor& largest_tensor(const Checkpoint& checkpoint) {
  return *std::ranges::max_element(checkpoint.tensors(), {}, [](const CheckpointTensor& t) { return t.data.size(); });
}

std::string name_of_reads(const std::string& path, const ReadPattern& pattern) {
  struct stat info = {};
  const std::string disk = ::stat(path.c_str(), &info) == 0 ? fmt::format("{}", info.st_dev) : "?";
  return fmt::format("disk:{}:{}KiB:{}:{}", disk, pattern.bytes >> 10, pattern.in_flight, pattern.burst);
}

std::string name_of_device(const Device& device) {
  std::string name = fmt::format("copy:{}:{}", device.facts().id, device.facts().name);
  std::ranges::replace(name, ' ', '_');
  return name;
}

// Copies from pinned memory that go on while this is there.
class CopiesMeanwhile {
 public:
  explicit CopiesMeanwhile(Device& device)
      : bytes_(default_sizes(device, UINT64_MAX).piece_bytes),
        host_(device.allocate_host(kPieces * bytes_)),
        target_(device.allocate_unpooled(bytes_)),
        stream_(device.state().copy_stream(device)) {
    thread_ = std::thread([this] {
      auto* const from = static_cast<std::byte*>(host_.get());
      for (size_t i = 0; !ended_; ++i) {
        stream_.copy_to_device(target_.get(), from + i % kPieces * bytes_, bytes_);
        if (i % 2 == 1) stream_.synchronize();
        copied_ += bytes_;
      }
      stream_.synchronize();
    });
  }
  ~CopiesMeanwhile() {
    ended_ = true;
    thread_.join();
  }
  CopiesMeanwhile(const CopiesMeanwhile&) = delete;
  CopiesMeanwhile& operator=(const CopiesMeanwhile&) = delete;

  // Bytes per second from the last call, or the beginning, on.
  double speed() {
    const double seconds = seconds_since(std::exchange(since_, Clock::now()));
    return static_cast<double>(copied_.exchange(0)) / seconds;
  }

 private:
  static constexpr size_t kPieces = 16;  // more than a cache holds
  size_t bytes_;
  std::shared_ptr<void> host_, target_;
  Stream& stream_;
  std::atomic<bool> ended_{false};
  std::atomic<size_t> copied_{0};
  Clock::time_point since_ = Clock::now();
  std::thread thread_;
};

constexpr int64_t kSmallRows = 32;
// A layer's small operations, and the beginnings and ends of its products, in evaluations of a product of 1 MiB that is
// in a cache. All threads take part in it.
constexpr double kEvaluations = 8;

constexpr size_t kOwnMatrix = size_t{24} << 20;     // on a device that works in host memory, whose limit may be small
constexpr size_t kNextToMatrix = size_t{96} << 20;  // of host blocks, for which there are gigabytes

DeviceSpeeds probe_gpu(Device& device, DType dtype) {
  LinkCache cache;
  const std::string name = name_of_device(device);
  DeviceSpeeds speeds;
  try {
    speeds.multiply = cache.get(fmt::format("multiply:{}:{}", dtype_name(dtype), name),
                                [&] { return gpu_multiply_speed(device, dtype); });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNoDevice) throw;
    constexpr double kShare = 0.6, kUnknown = 3e11;  // of published bandwidth
    const abi::DeviceFacts& facts = device.facts();
    const auto published = published_bandwidth(facts.architecture, facts.name, facts.memory_total);
    speeds.multiply = published ? kShare * published->bytes_per_second : kUnknown;
  }
  speeds.layer_seconds = 1 / cache.get("small_layers:" + name, [&] { return gpu_small_layers(device); });
  return speeds;
}

int threads_of(const Device& cpu, int threads) { return threads > 0 ? threads : cpu.facts().compute_units; }

}  // namespace

LinkSpeeds probe_packed_reads(const std::string& path, Device& device, DType dtype, const ReadPattern& reads) {
  LinkCache cache;
  std::optional<PartPacker> packer;
  const std::string name = fmt::format("{}:{}", name_of_reads(path, reads), dtype_name(dtype));
  LinkSpeeds speeds;
  speeds.file = cache.get(name, [&] {
    packer.emplace(device, dtype, reads.bytes);
    return measure_file(path, kSeconds, reads, [&](std::span<const std::byte> read) { packer->pack(read); });
  });
  constexpr double kNone = 1e18;  // the cache has speeds above 0
  speeds.device = cache.get("pack:" + name, [&] {
    if (!packer) packer.emplace(device, dtype, reads.bytes);
    if (!packer->packs()) return kNone;
    if (packer->speed() == 0) packer->pack_zeros(kSeconds / 4);
    return packer->speed();
  });
  if (speeds.device == kNone) speeds.device = 0;
  return speeds;
}

double measure_copies(Device& device, double seconds) {
  const size_t bytes = default_sizes(device, UINT64_MAX).piece_bytes;
  const std::shared_ptr<void> host = device.allocate_host(bytes), target = device.allocate_unpooled(bytes);
  Stream& stream = device.state().copy_stream(device);
  stream.copy_to_device(target.get(), host.get(), bytes);  // the first one maps memory
  stream.synchronize();
  const auto start = Clock::now();
  double copied = 0;
  while (seconds_since(start) < seconds) {
    for (int i = 0; i < 8; ++i, copied += static_cast<double>(bytes))
      stream.copy_to_device(target.get(), host.get(), bytes);
    stream.synchronize();
  }
  return copied / seconds_since(start);
}

std::string largest_file(const Checkpoint& checkpoint) { return largest_tensor(checkpoint).file->path(); }

LinkSpeeds probe_links(const std::string& path, Device& device, const std::optional<ReadPattern>& reads) {
  LinkCache cache;
  LinkSpeeds speeds;
  if (reads) speeds.file = cache.get(name_of_reads(path, *reads), [&] { return measure_file(path, kSeconds, *reads); });
  if (!device.host_accessible())
    speeds.device = cache.get(name_of_device(device), [&] { return measure_copies(device, kSeconds / 5); });
  return speeds;
}

CpuSpeeds probe_cpu(Device& cpu, DType dtype, int threads, Device& device) {
  LinkCache cache;
  const auto name = [&](const char* what) {
    return fmt::format("{}:{}:{}:{}", what, dtype_name(dtype), threads_of(cpu, threads), name_of_device(device));
  };
  std::optional<Products> products;
  std::optional<CopiesMeanwhile> copies;
  const auto measure = [&](int64_t tokens) {
    if (!products) products.emplace(cpu, dtype, kNextToMatrix);
    if (!copies) copies.emplace(device);
    return products->speed(tokens, kSeconds / 2);
  };
  CpuSpeeds speeds;
  double copied = 0;
  speeds.one = cache.get(name("cpu_one"), [&] {
    const double one = measure(1);
    copied = copies->speed();
    return one;
  });
  speeds.copies = cache.get(name("copy_beside"), [&] {
    if (copied == 0) {
      measure(1);
      copied = copies->speed();
    }
    return copied;
  });
  speeds.eight = cache.get(name("cpu_eight"), [&] { return measure(8); });
  return speeds;
}

DeviceSpeeds probe_device(Device& device, DType dtype, int threads) {
  if (!device.host_accessible()) return probe_gpu(device, dtype);
  LinkCache cache;
  std::optional<Products> products;
  const auto measured = [&](const char* what, const auto& measure) {
    return cache.get(fmt::format("{}:{}:{}", what, dtype_name(dtype), threads_of(device, threads)), [&] {
      if (!products) products.emplace(device, dtype, kOwnMatrix);
      return measure(*products);
    });
  };
  DeviceSpeeds speeds;
  speeds.multiply = measured("multiply", [](Products& p) { return p.speed(1, kSeconds / 2) * p.device_ratio(); });
  constexpr double kNone = 1e18;  // the cache has speeds above 0
  speeds.pack = measured("pack_alone", [](Products& p) { return std::max(p.pack_speed(kSeconds / 4), 1.0); });
  speeds.pack = speeds.pack <= 1 ? kNone : speeds.pack * threads_of(device, threads);
  speeds.layer_seconds =
      kEvaluations / measured("small_products", [&](Products&) { return small_evaluations(device); });
  return speeds;
}

double probe_hand_over(Device& device, Device& cpu, int threads) {
  LinkCache cache;
  const std::string name = fmt::format("hand_over:{}:{}", threads_of(cpu, threads), name_of_device(device));
  return 1 / cache.get(name, [&] {
    const std::vector<float> zeros(static_cast<size_t>(kProbeColumns * kSmallRows), 0.0f);
    const Tensor w = cpu.upload(DType::f32, Shape{kSmallRows, kProbeColumns}, zeros.data());
    const Tensor back = cpu.upload(DType::f32, Shape{kProbeColumns, kSmallRows}, zeros.data());
    Tensor h = device.upload(DType::f32, Shape{1, kProbeColumns}, zeros.data());
    const auto once = [&] {
      const std::vector<float> there = to_host<float>(h);
      const Tensor x = cpu.upload(DType::f32, h.shape(), there.data());
      const std::vector<float> here = to_host<float>(linear(silu(linear(x, w)) * linear(x, w), back));
      h = device.upload(DType::f32, h.shape(), here.data()) + h;
      eval(std::span(&h, 1));
    };
    once();
    constexpr int kTimes = 64;
    const auto start = Clock::now();
    for (int i = 0; i < kTimes; ++i) once();
    return kTimes / seconds_since(start);
  });
}

}  // namespace gabbro::streaming
