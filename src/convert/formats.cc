#include "src/convert/formats.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace gabbro::llm {

void OtherFormats::add(const PlannedTensor& planned) {
  if (planned.dtype == planned.asked) return;
  ShortRows& rows = short_rows_[{std::string(dtype_name(planned.dtype)), planned.shape.back()}];
  ++rows.count;
  rows.block = std::min<int64_t>(rows.block, dtype_info(planned.asked).block_elements);
}

void OtherFormats::add_copied(DType format) { ++copied_[std::string(dtype_name(format))]; }

std::string OtherFormats::line(const std::string& path, const FileType& type, size_t tensors) const {
  size_t count = 0;
  std::vector<std::string> parts;
  for (const auto& [kind, rows] : short_rows_) {
    parts.push_back(
        fmt::format("{} as {} (rows of {} are not a multiple of {})", rows.count, kind.first, kind.second, rows.block));
    count += rows.count;
  }
  for (const auto& [format, number] : copied_) {
    parts.push_back(fmt::format("{} as {} (copied: the model does not use them)", number, format));
    count += number;
  }
  if (count == 0) return "";
  return fmt::format("{}: {} of {} tensors are not in the format of {}: {}", path, count, tensors, type.name,
                     fmt::join(parts, ", "));
}

}  // namespace gabbro::llm
