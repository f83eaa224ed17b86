#include "src/engine/streaming/link_probe.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/neural.h"
#include "src/backend/stream.h"
#include "src/base/async_reader.h"
#include "src/base/error.h"
#include "src/base/large_memory.h"
#include "src/base/mapped_file.h"
#include "src/base/round_up.h"
#include "src/engine/streaming/pieces.h"
#include "src/engine/streaming/weight_stream.h"

namespace gabbro::streaming {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.25;
constexpr int kReads = 8;
constexpr size_t kReadBytes = size_t{4} << 20;

double seconds_from(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

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

std::string name_of_disk(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? fmt::format("disk:{}", info.st_dev) : "disk:?";
}

std::string name_of_device(const Device& device) {
  std::string name = fmt::format("copy:{}:{}", device.facts().id, device.facts().name);
  std::ranges::replace(name, ' ', '_');
  return name;
}

// Products with a matrix that no cache holds.
class Products {
 public:
  Products(Device& cpu, DType dtype) : cpu_(cpu) {
    constexpr size_t kBytes = size_t{96} << 20;
    const size_t row = dtype_bytes(dtype, kColumns);
    const auto rows = static_cast<int64_t>(kBytes / row);
    bytes_ = static_cast<size_t>(rows) * row;
    const std::shared_ptr<void> zeros = std::make_shared<std::vector<std::byte>>(bytes_);
    const auto* const data = static_cast<std::vector<std::byte>*>(zeros.get())->data();
    weight_ = cpu.upload_matrix(dtype, rows, kColumns, std::shared_ptr<const void>(zeros, data));
  }

  // Bytes per second.
  double speed(int64_t tokens, double seconds) {
    const std::vector<float> ones(static_cast<size_t>(tokens * kColumns), 1.0f);
    const Tensor x = cpu_.upload(DType::f32, Shape{tokens, kColumns}, ones.data());
    const auto multiply = [&] {
      Tensor y = linear(x, weight_);
      eval(std::span(&y, 1));
    };
    multiply();  // the first one makes a plan
    const auto start = Clock::now();
    double done = 0;
    do {
      multiply();
      done += static_cast<double>(bytes_);
    } while (seconds_from(start) < seconds);
    return done / seconds_from(start);
  }

 private:
  static constexpr int64_t kColumns = 4096;
  Device& cpu_;
  size_t bytes_ = 0;
  Tensor weight_;
};

}  // namespace

double measure_file(const std::string& path, double seconds) {
  Files files;
  const auto mapped = std::make_shared<MappedFile>(path);
  const int file = files.add(mapped);
  const size_t size = mapped->bytes().size() / kReadAlignment * kReadAlignment;
  const std::shared_ptr<void> memory = allocate_large(kReads * kReadBytes);
  std::string note;
  const auto reader = make_async_reader(kReads, &note);
  uint64_t offset = 0, bytes = 0;
  int under_way = 0;
  const auto submit = [&](uint64_t buffer) {
    const size_t length = std::min<uint64_t>(kReadBytes, size - offset);
    reader->submit({.file = files.descriptor(file),
                    .offset = offset,
                    .bytes = length,
                    .target = static_cast<std::byte*>(memory.get()) + buffer * kReadBytes,
                    .tag = buffer});
    offset += length;
    ++under_way;
  };
  const auto start = Clock::now();
  for (uint64_t buffer = 0; buffer < kReads && offset < size; ++buffer) submit(buffer);
  std::vector<FinishedRead> finished;
  while (under_way > 0) {
    finished.clear();
    reader->wait(finished, std::chrono::milliseconds(100));
    for (const FinishedRead& read : finished) {
      --under_way;
      if (read.result <= 0) return 0;  // the stream will say why
      bytes += static_cast<uint64_t>(read.result);
      if (offset < size && seconds_from(start) < seconds) submit(read.tag);
    }
  }
  return bytes > 0 ? static_cast<double>(bytes) / seconds_from(start) : 0;
}

double measure_copies(Device& device, double seconds) {
  const size_t bytes = default_sizes(device, UINT64_MAX).piece_bytes;
  const std::shared_ptr<void> host = device.allocate_host(bytes), target = device.allocate_unpooled(bytes);
  Stream& stream = device.state().copy_stream(device);
  stream.copy_to_device(target.get(), host.get(), bytes);  // the first one maps memory
  stream.synchronize();
  const auto start = Clock::now();
  double copied = 0;
  while (seconds_from(start) < seconds) {
    for (int i = 0; i < 8; ++i, copied += static_cast<double>(bytes))
      stream.copy_to_device(target.get(), host.get(), bytes);
    stream.synchronize();
  }
  return copied / seconds_from(start);
}

std::string largest_file(const Checkpoint& checkpoint) { return largest_tensor(checkpoint).file->path(); }

LinkSpeeds probe_links(const Checkpoint& checkpoint, Device& device, bool reads_file) {
  return probe_links(largest_file(checkpoint), device, reads_file);
}

LinkSpeeds probe_links(const std::string& path, Device& device, bool reads_file) {
  LinkCache cache;
  LinkSpeeds speeds;
  if (reads_file) speeds.file = cache.get(name_of_disk(path), [&] { return measure_file(path, kSeconds); });
  if (!device.host_accessible())
    speeds.device = cache.get(name_of_device(device), [&] { return measure_copies(device, kSeconds / 5); });
  return speeds;
}

CpuSpeeds probe_cpu(Device& cpu, DType dtype, int threads) {
  LinkCache cache;
  const auto name = [&](int64_t tokens) {
    return fmt::format("cpu:{}:{}:{}", dtype_name(dtype), threads > 0 ? threads : cpu.facts().compute_units, tokens);
  };
  std::optional<Products> products;
  const auto measure = [&](int64_t tokens) {
    return cache.get(name(tokens), [&] {
      if (!products) products.emplace(cpu, dtype);
      return products->speed(tokens, kSeconds / 5);
    });
  };
  const double one = measure(1);
  return {.one = one, .eight = measure(8)};
}

}  // namespace gabbro::streaming
