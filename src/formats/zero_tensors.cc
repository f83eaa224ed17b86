#include "src/formats/zero_tensors.h"

#include <algorithm>
#include <cstring>

namespace gabbro {
namespace {

bool is_zeros(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

bool is_matrix(const CheckpointTensor& tensor) {
  const bool weights = tensor.known_dtype && (is_floating(*tensor.known_dtype) || is_quantized(*tensor.known_dtype));
  return weights && std::ranges::count_if(tensor.shape, [](int64_t length) { return length > 1; }) > 1;
}

}  // namespace

void ZeroTensors::add(const CheckpointTensor& tensor) {
  constexpr size_t kEdge = 64;  // bytes: more than a few small weights that are 0 by chance
  const std::span<const std::byte> data = tensor.data;
  if (data.empty()) return;
  const size_t edge = std::min(kEdge, data.size());
  entries_.push_back({.name = std::string(tensor.name),
                      .file = tensor.file.get(),
                      .offset = tensor.offset(),
                      .matrix = is_matrix(tensor),
                      .zeros = is_zeros(data),
                      .begins_with_zeros = is_zeros(data.first(edge)),
                      .ends_with_zeros = is_zeros(data.last(edge))});
}

ZeroTensors::Found ZeroTensors::find() const {
  std::vector<Entry> entries = entries_;
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.file, a.offset) < std::pair(b.file, b.offset);
  });
  const auto same_file = [&](size_t i, size_t j) { return j < entries.size() && entries[i].file == entries[j].file; };
  Found found;
  for (size_t first = 0, end = 0; first < entries.size(); first = end) {
    end = first + 1;
    if (!entries[first].zeros) continue;
    while (same_file(first, end) && entries[end].zeros) ++end;
    const std::span<const Entry> run = std::span(entries).subspan(first, end - first);
    const bool begins_inside = first > 0 && same_file(first, first - 1) && entries[first - 1].ends_with_zeros;
    const bool ends_inside = same_file(first, end) && entries[end].begins_with_zeros;
    const bool hole = begins_inside || ends_inside || std::ranges::count_if(run, &Entry::matrix) > 1;
    for (const Entry& entry : run) {
      if (hole || entry.matrix) (hole ? found.holes : found.single).push_back(entry.name);
    }
  }
  return found;
}

}  // namespace gabbro
