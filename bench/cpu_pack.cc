// How fast one thread packs rows of each format on the device that GABBRO_DEVICE names (default: cpu), in GB/s of the
// file's bytes, as streaming does it. Arguments: formats, such as q8_0 q4_k; none: those that streamed models have.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "src/backend/registry.h"
#include "src/backend/stream.h"

namespace gabbro {
namespace {

constexpr int64_t kRows = 1024, kPart = 512, kColumns = 4096;

std::optional<DType> find_quantized(const std::string& name) {
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) {
    if (dtype_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return {};
}

double gb_per_second(const std::shared_ptr<Device>& device, DType dtype) {
  const size_t bytes = dtype_bytes(dtype, static_cast<size_t>(kRows * kColumns));
  const std::shared_ptr<void> source = device->allocate_host(bytes),
                              target = device->allocate_unpooled(device->matrix_bytes(dtype, kRows, kColumns));
  auto* const from = static_cast<std::byte*>(source.get());
  for (size_t i = 0; i < bytes; ++i) from[i] = static_cast<std::byte>(i * 2654435761u >> 13 & 0x3f);
  Stream& stream = device->state().copy_stream(*device);
  double best = 0;
  for (int round = 0; round < 9; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t row = 0; row < kRows; row += kPart)
      stream.pack({dtype, kRows, kColumns, row, kPart}, from + dtype_bytes(dtype, static_cast<size_t>(row * kColumns)),
                  target.get());
    stream.synchronize();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(bytes) / seconds.count() / 1e9);
  }
  return best;
}

int run(std::vector<std::string> names) {
  if (names.empty()) names = {"q8_0", "q4_0", "q4_1", "q5_0", "q4_k", "q5_k", "q6_k", "q3_k", "q2_k", "iq4_xs"};
  const char* const wanted = std::getenv("GABBRO_DEVICE");
  const std::shared_ptr<Device> device = open_device(wanted != nullptr ? wanted : "cpu");
  for (const std::string& name : names) {
    const auto dtype = find_quantized(name);
    if (!dtype || device->matrix_bytes(*dtype, kRows, kColumns) == 0) {
      std::printf("%-8s is not packed\n", name.c_str());
      continue;
    }
    std::printf("%-8s %6.2f GB/s\n", name.c_str(), gb_per_second(device, *dtype));
  }
  return 0;
}

}  // namespace
}  // namespace gabbro

int main(int count, char** arguments) { return gabbro::run({arguments + 1, arguments + count}); }
