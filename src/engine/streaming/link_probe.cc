#include "src/engine/streaming/link_probe.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/elementwise.h"
#include "gabbro/ops/neural.h"
#include "src/backend/stream.h"
#include "src/base/async_reader.h"
#include "src/base/cache_flush.h"
#include "src/base/error.h"
#include "src/base/large_memory.h"
#include "src/base/mapped_file.h"
#include "src/base/published_bandwidth.h"
#include "src/base/round_up.h"
#include "src/base/seconds_since.h"
#include "src/engine/streaming/pieces.h"
#include "src/engine/streaming/weight_stream.h"

namespace gabbro::streaming {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.25;

std::filesystem::path cache_file() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "gabbro" / "links";
  return home != nullptr && *home == '/' ? std::filesystem::path(home) / ".cache" / "gabbro" / "links"
                                         : std::filesystem::path();
}

// Lines "<link> <bytes per second> <time>"; others, and those of yesterday, are passed over: disks have busy hours.
class LinkCache {
 public:
  LinkCache() {
    std::ifstream file(cache_file());
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string link;
      double speed = 0, time = 0;
      constexpr double kDay = 86400;
      if (words >> link >> speed >> time && speed > 0 && now() - time < kDay) speeds_[link] = {speed, time};
    }
  }

  template <class Measure>
  double get(const std::string& link, const Measure& measure) {
    const auto known = speeds_.find(link);
    if (known != speeds_.end()) return known->second.speed;
    const double speed = measure();
    speeds_[link] = {speed, now()};
    save();
    return speed;
  }

 private:
  void save() const {
    const std::filesystem::path path = cache_file();
    if (path.empty()) return;
    std::string text;
    for (const auto& [link, known] : speeds_) text += fmt::format("{} {:.0f} {:.0f}\n", link, known.speed, known.time);
    std::error_code ignored;
    std::filesystem::create_directories(path.parent_path(), ignored);
    try {
      write_file_atomically(path.string(), std::as_bytes(std::span(text)));
    } catch (const Error&) {  // measured again the next time
    }
  }

  struct Known {
    double speed, time;  // bytes per second; seconds since 1970
  };
  static double now() { return static_cast<double>(std::time(nullptr)); }

  std::map<std::string, Known> speeds_;
};

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

// Products of a CPU with a matrix that is flushed from its caches before each.
class Products {
 public:
  Products(Device& cpu, DType dtype, size_t bytes) : cpu_(cpu), dtype_(dtype) {
    const size_t row = dtype_bytes(dtype, kProbeColumns);
    rows_ = round_up(static_cast<int64_t>(bytes / row), abi::kPackRows);
    bytes_ = static_cast<size_t>(rows_) * row;
    device_bytes_ = std::max(cpu.matrix_bytes(dtype, rows_, kProbeColumns), size_t{1});
    zeros_ = allocate_large(bytes_);
    std::memset(zeros_.get(), 0, bytes_);
    weight_ = cpu.upload_matrix(dtype, rows_, kProbeColumns, zeros_);
    if (device_bytes_ == 1) device_bytes_ = bytes_;
  }

  // Bytes per second, as a file has them.
  double speed(int64_t tokens, double seconds) {
    const std::vector<float> ones(static_cast<size_t>(tokens * kProbeColumns), 1.0f);
    const Tensor x = cpu_.upload(DType::f32, Shape{tokens, kProbeColumns}, ones.data());
    const auto multiply = [&] {
      Tensor y = linear(x, weight_);
      eval(std::span(&y, 1));
    };
    multiply();  // the first one makes a plan
    return median_speed(seconds, multiply);
  }

  // Bytes per second that one thread packs, as a stream has it; 0: they are not packed.
  double pack_speed(double seconds) {
    if (!weight_.state().spec.packed) return 0;
    const int64_t count = rows_ / 2 / abi::kPackRows * abi::kPackRows;  // a part is packed by its caller alone
    const abi::PackRequest part = {dtype_, rows_, kProbeColumns, 0, count};
    const Device::State& state = cpu_.state();
    const double whole = median_speed(seconds, [&] {
      check(state.backend->pack(state.device, nullptr, &part, zeros_.get(), weight_.state().storage.get()), "packing");
    });
    return whole * static_cast<double>(count) / static_cast<double>(rows_);
  }

  // Bytes as the device has them for a byte of a file.
  double device_ratio() const { return static_cast<double>(device_bytes_) / static_cast<double>(bytes_); }

 private:
  template <class Work>
  double median_speed(double seconds, const Work& work) {
    std::vector<double> times;
    const auto begin = Clock::now();
    constexpr size_t kLeast = 5;
    while (times.size() < kLeast || seconds_since(begin) < seconds) {
      flush_from_caches(weight_.state().storage.get(), device_bytes_);
      if (zeros_ != weight_.state().storage) flush_from_caches(zeros_.get(), bytes_);
      const auto start = Clock::now();
      work();
      times.push_back(seconds_since(start));
    }
    std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
    return static_cast<double>(bytes_) / times[times.size() / 2];
  }

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
  PartPacker(Device& device, DType dtype, size_t piece_bytes) : device_(device), dtype_(dtype) {
    rows_ = static_cast<int64_t>(piece_bytes / dtype_bytes(dtype, kColumns)) / abi::kPackRows * abi::kPackRows;
    if (rows_ == 0) return;
    const int64_t all = rows_ + abi::kPackRows;  // a part is packed by its caller alone
    const size_t bytes = static_cast<size_t>(all) * dtype_bytes(dtype, kColumns);
    zeros_ = allocate_large(bytes);
    std::memset(zeros_.get(), 0, bytes);
    weight_ = device.upload_matrix(dtype, all, kColumns, zeros_);
  }

  bool packs() const { return rows_ > 0 && weight_.state().spec.packed; }

  void pack(std::span<const std::byte> read) {
    const auto rows =
        static_cast<int64_t>(read.size() / dtype_bytes(dtype_, kColumns)) / abi::kPackRows * abi::kPackRows;
    if (!packs() || rows == 0) return;
    const abi::PackRequest part = {dtype_, rows_ + abi::kPackRows, kColumns, 0, std::min(rows, rows_)};
    const Device::State& state = device_.state();
    const auto start = Clock::now();
    check(state.backend->pack(state.device, nullptr, &part, read.data(), weight_.state().storage.get()), "packing");
    seconds_ += seconds_since(start);
    bytes_ += static_cast<size_t>(part.row_count) * dtype_bytes(dtype_, kColumns);
  }

  void pack_zeros(double seconds) {
    const auto start = Clock::now();
    const size_t bytes = static_cast<size_t>(rows_) * dtype_bytes(dtype_, kColumns);
    do {
      pack({static_cast<const std::byte*>(zeros_.get()), bytes});
    } while (seconds_since(start) < seconds);
  }

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

// Per second.
double small_evaluations(Device& device) {
  constexpr int64_t kRows = 512;
  const std::vector<float> zeros(static_cast<size_t>(kRows * kRows), 0.0f);
  const Tensor w = device.upload(DType::f32, Shape{kRows, kRows}, zeros.data());
  const Tensor x = device.upload(DType::f32, Shape{1, kRows}, zeros.data());
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const auto start = Clock::now();
    Tensor y = linear(x, w);
    eval(std::span(&y, 1));
    times.push_back(seconds_since(start));
  }
  std::ranges::nth_element(times, times.begin() + 100);
  return 1 / times[100];
}

constexpr size_t kOwnMatrix = size_t{24} << 20;     // on a device that works in host memory, whose limit may be small
constexpr size_t kBesideMatrix = size_t{96} << 20;  // of host blocks, for which there are gigabytes

// Bytes per second, as the device has them, of products with one token and a matrix that no cache of a GPU holds. The
// steps are enqueued without a wait in between, as those of a pass are. Throws if the device has no room for it.
double gpu_multiply_speed(Device& device, DType dtype) {
  constexpr size_t kBytes = size_t{256} << 20;  // an RX 7900's cache has 96 MiB, an H200's 50 MiB
  constexpr int kTimes = 16;
  const int64_t rows =
      round_up(static_cast<int64_t>(kBytes / dtype_bytes(dtype, kProbeColumns)), int64_t{abi::kPackRows});
  const std::shared_ptr<void> zeros = allocate_large(static_cast<size_t>(rows) * dtype_bytes(dtype, kProbeColumns));
  std::memset(zeros.get(), 0, static_cast<size_t>(rows) * dtype_bytes(dtype, kProbeColumns));
  const Tensor w = device.upload_matrix(dtype, rows, kProbeColumns, zeros);
  const std::vector<float> ones(kProbeColumns, 1.0f);
  const Tensor x = device.upload(DType::f32, Shape{1, kProbeColumns}, ones.data());
  const auto seconds = [&](int times) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) {
      Tensor y = linear(x, w);
      eval(std::span(&y, 1));
    }
    device.state().compute_stream(device).synchronize();
    return seconds_since(start);
  };
  seconds(2);  // makes the plan
  const size_t packed = device.matrix_bytes(dtype, rows, kProbeColumns);
  const size_t bytes = packed > 0 ? packed : static_cast<size_t>(rows) * dtype_bytes(dtype, kProbeColumns);
  return kTimes * static_cast<double>(bytes) / seconds(kTimes);
}

// Layers per second whose operations are all small: their launches, and kernels that are too short to fill the device.
double gpu_small_layers(Device& device) {
  constexpr int64_t kWidth = 256;
  constexpr int kOperations = 12;  // launches of a decoder's layer
  constexpr int kTimes = 64;
  const std::vector<float> zeros(static_cast<size_t>(kWidth * kWidth), 0.0f);
  const Tensor w = device.upload(DType::f32, Shape{kWidth, kWidth}, zeros.data());
  Tensor x = device.upload(DType::f32, Shape{1, kWidth}, zeros.data());
  const auto seconds = [&](int times) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) {
      for (int k = 0; k < kOperations; ++k) x = linear(x, w);
      eval(std::span(&x, 1));
    }
    device.state().compute_stream(device).synchronize();
    return seconds_since(start);
  };
  seconds(4);  // makes the plan
  return kTimes / seconds(kTimes);
}

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

double measure_file(const std::string& path, double seconds, const ReadPattern& pattern, const Arrived& arrived) {
  Files files;
  const auto mapped = std::make_shared<MappedFile>(path);
  const int file = files.add(mapped);
  const size_t size = mapped->bytes().size() / kReadAlignment * kReadAlignment;
  const size_t read_bytes = round_up(pattern.bytes, kReadAlignment);
  const auto buffers = static_cast<uint64_t>(pattern.in_flight);
  const std::shared_ptr<void> memory = allocate_large(buffers * read_bytes);
  std::string note;
  const auto reader = make_async_reader(pattern.in_flight, &note);
  uint64_t offset = 0, bytes = 0;
  int under_way = 0, of_burst = 0;  // reads
  const auto submit = [&](uint64_t buffer) {
    const size_t length = std::min<uint64_t>(read_bytes, size - offset);
    reader->submit({.file = files.descriptor(file),
                    .offset = offset,
                    .bytes = length,
                    .target = static_cast<std::byte*>(memory.get()) + buffer * read_bytes,
                    .tag = buffer});
    offset += length;
    ++under_way;
    ++of_burst;
  };
  const auto may_submit = [&] { return offset < size && (pattern.burst == 0 || of_burst < pattern.burst); };
  const auto submit_first = [&] {
    of_burst = 0;
    for (uint64_t buffer = 0; buffer < buffers && may_submit(); ++buffer) submit(buffer);
  };
  const auto start = Clock::now();
  submit_first();
  std::vector<FinishedRead> finished;
  while (under_way > 0) {
    finished.clear();
    reader->wait(finished, std::chrono::milliseconds(100));
    for (const FinishedRead& read : finished) {
      --under_way;
      if (read.result <= 0) {
        mapped->require_unchanged();
        return 0;  // the stream will say why
      }
      bytes += static_cast<uint64_t>(read.result);
      if (arrived) {
        const std::byte* const data = static_cast<std::byte*>(memory.get()) + read.tag * read_bytes;
        arrived({data, static_cast<size_t>(read.result)});
      }
      if (may_submit() && (pattern.burst > 0 || seconds_since(start) < seconds)) submit(read.tag);
    }
    if (under_way > 0 || pattern.burst == 0 || seconds_since(start) >= seconds) continue;
    // The next burst is elsewhere in the file, as the experts of the next layer are.
    constexpr double kGoldenRatio = 0.6180339887;
    const auto jump = static_cast<uint64_t>(kGoldenRatio * static_cast<double>(size));
    offset = (offset + jump) % size / kReadAlignment * kReadAlignment;
    submit_first();
  }
  return bytes > 0 ? static_cast<double>(bytes) / seconds_since(start) : 0;
}

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
    if (!products) products.emplace(cpu, dtype, kBesideMatrix);
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
