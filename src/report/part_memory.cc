// Memory of the device: ranges that grow, and the rates of copies from each kind of host memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "src/base/error.h"
#include "src/report/examined_device.h"

namespace gabbro::report {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kReserved = 256 * kMiB;
// Unequal growths, as in a KV cache.
constexpr std::array<size_t, 5> kGrowths = {2 * kMiB, 5 * kMiB, 14 * kMiB, 30 * kMiB, 64 * kMiB};
constexpr int kRanges = 4;

uint64_t free_bytes(Device& device) {
  const Device::State& state = device.state();
  abi::DeviceFacts facts{};
  const std::string id = device.facts().id;
  const int32_t index = std::atoi(id.substr(id.find(':') + 1).c_str());
  return state.backend->device_facts(index, &facts).code == abi::StatusCode::kOk ? facts.memory_free : 0;
}

// 4 KiB at the beginning and at the end of the part that has memory.
bool holds_pattern(Device& device, char* range, size_t bytes, unsigned char value) {
  const std::vector<unsigned char> written(4096, value);
  std::vector<unsigned char> read(written.size());
  for (char* at : {range, range + bytes - written.size()}) {
    device.copy_to_device(at, written.data(), written.size());
    device.copy_to_host(read.data(), at, read.size());
    if (read != written) return false;
  }
  return true;
}

// A file that is mapped as model files are. It is removed at once: the mapping keeps it.
class MappedFile {
 public:
  MappedFile(const std::string& folder, size_t bytes) : bytes_(bytes) {
    const std::string path = folder + "/mapped_file";
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) throw failed("{}: {}", path, std::strerror(errno));
    ::unlink(path.c_str());
    std::vector<char> block(kMiB);
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<char>(i * 31 + i / 253);
    bool written = true;
    for (size_t at = 0; at < bytes && written; at += block.size())
      written = ::write(file, block.data(), block.size()) == std::ssize(block);
    void* mapped = written ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    const int error = errno;
    ::close(file);
    if (mapped == MAP_FAILED) throw failed("a mapped file of {} bytes: {}", bytes, std::strerror(error));
    data_ = mapped;
  }
  ~MappedFile() { ::munmap(data_, bytes_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_;
};

void time_copy(Device& device, void* target, const void* host, size_t bytes, const char* kind, PartOutput& output) {
  // The line before the copy says which one hung.
  output.line({{"copy", kind}, {"bytes", bytes}, {"state", "begun"}});
  std::vector<double> times;
  double spent = 0;
  for (int repeat = 0; repeat < 5 && spent < 2; ++repeat) {
    times.push_back(seconds_of([&] {
      device.copy_to_device(target, host, bytes);
      device.synchronize();
    }));
    spent += times.back();
  }
  const double best = std::ranges::min(times);
  output.line({{"copy", kind},
               {"bytes", bytes},
               {"state", "done"},
               {"seconds", times},
               {"gb_per_second", static_cast<double>(bytes) / best / 1e9}});
}

void time_all_copies(const PartOptions& options, PartOutput& output) {
  const Budget budget(options);
  const DevicePointer device = open_examined_device(options);
  const uint64_t free = free_bytes(*device);
  const size_t largest = std::clamp<size_t>(free / 4 / kMiB * kMiB, 16 * kMiB, 1024 * kMiB);
  std::shared_ptr<void> target = device->allocate_unpooled(largest);
  for (const size_t bytes : {size_t{4096}, 64 * kMiB / 1024, kMiB, 16 * kMiB, 256 * kMiB, 1024 * kMiB}) {
    if (bytes > largest || !budget.below(0.5)) break;
    const std::vector<char> pageable(bytes, 'x');
    time_copy(*device, target.get(), pageable.data(), bytes, "pageable", output);
    const std::shared_ptr<void> pinned = device->allocate_host(bytes);
    std::memset(pinned.get(), 1, bytes);
    time_copy(*device, target.get(), pinned.get(), bytes, "pinned", output);
    std::memset(pinned.get(), 0, bytes);
    const double back = seconds_of([&] {
      device->copy_to_host(pinned.get(), target.get(), bytes);
      device->synchronize();
    });
    const auto* const first = static_cast<const char*>(pinned.get());
    output.line({{"copy", "to pinned"},
                 {"bytes", bytes},
                 {"gb_per_second", static_cast<double>(bytes) / back / 1e9},
                 {"right", std::all_of(first, first + bytes, [](char c) { return c == 1; })}});
  }
  for (const size_t bytes : {kMiB, 16 * kMiB, 256 * kMiB}) {
    if (bytes > largest || !budget.below(0.7)) break;
    const MappedFile file(output.folder(), bytes);
    time_copy(*device, target.get(), file.data(), bytes, "mapped file", output);
  }
}

}  // namespace

void check_ranges(const PartOptions& options, PartOutput& output) {
  const DevicePointer device = open_examined_device(options);
  device->trim(abi::MemoryKind::kDevice);
  const uint64_t before = free_bytes(*device);
  {
    std::vector<std::shared_ptr<void>> ranges;
    for (int i = 0; i < kRanges; ++i) {
      ranges.push_back(device->reserve_range(kReserved));
      if (ranges.back() == nullptr) {
        output.line({{"ranges", false}, {"why", "the device has no memory that comes by need"}});
        return;
      }
    }
    for (const size_t bytes : kGrowths) {
      for (int i = 0; i < kRanges; ++i) {
        ordered_json line = {{"range", i}, {"bytes", bytes}};
        try {
          line["seconds"] = seconds_of([&] { device->extend_range(ranges[static_cast<size_t>(i)].get(), bytes); });
          line["holds"] = holds_pattern(*device, static_cast<char*>(ranges[static_cast<size_t>(i)].get()), bytes,
                                        static_cast<unsigned char>(i + 1));
        } catch (const Error& error) {
          line["error"] = error.what();
        }
        output.line(line);
      }
    }
    output.line({{"free_before", before}, {"free_grown", free_bytes(*device)}});
  }
  device->synchronize();
  output.line({{"free_before", before}, {"free_after", free_bytes(*device)}});
}

void time_copies(const PartOptions& options, PartOutput& output) { time_all_copies(options, output); }

void time_copies_without_sdma(const PartOptions& options, PartOutput& output) {
  ::setenv("HSA_ENABLE_SDMA", "0", 1);  // read when the runtime starts
  time_all_copies(options, output);
}

}  // namespace gabbro::report
