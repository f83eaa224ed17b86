#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/base/error.h"
#include "src/report/part.h"

namespace gabbro::report {
namespace {

constexpr std::array kParts = {
    Part{"machine", PartKind::kMachine, 40, record_machine},
    Part{"hip", PartKind::kMachine, 50, record_runtime},
    Part{"devices", PartKind::kMachine, 30, record_devices},
    Part{"kernels", PartKind::kDevice, 90, check_kernels},
    Part{"ranges", PartKind::kDevice, 30, check_ranges},
    Part{"copies", PartKind::kDevice, 50, time_copies},
    Part{"copies_no_sdma", PartKind::kRocm, 50, time_copies_without_sdma},
    Part{"graphs", PartKind::kDevice, 40, check_graphs},
    Part{"litmus", PartKind::kDevice, 40, check_litmus},
    Part{"speed", PartKind::kDevice, 60, measure_speed},
    Part{"model", PartKind::kDevice, 80, check_model},
    Part{"fault", PartKind::kFaults, 20, provoke_fault},
    Part{"after_fault", PartKind::kFaults, 20, check_after_fault},
};

constexpr int total_seconds() {
  int sum = 0;
  for (const Part& part : kParts) sum += part.seconds;
  return sum;
}
static_assert(total_seconds() <= 600);

}  // namespace

std::span<const Part> part_table() { return kParts; }

const Part* find_part(std::string_view name) {
  const auto found = std::ranges::find_if(kParts, [&](const Part& part) { return part.name == name; });
  return found == kParts.end() ? nullptr : &*found;
}

void PartOutput::line(const nlohmann::ordered_json& object) {
  const std::string path = fmt::format("{}/{}.jsonl", folder_, part_);
  if (lines_ == nullptr) lines_.reset(std::fopen(path.c_str(), "a"));
  // Texts of drivers may be in any encoding.
  const std::string text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (lines_ == nullptr || std::fprintf(lines_.get(), "%s\n", text.c_str()) < 0 || std::fflush(lines_.get()) != 0)
    throw failed("{}: cannot be written: {}", path, std::strerror(errno));
}

void PartOutput::file(const std::string& name, std::string_view content) {
  const std::filesystem::path path = std::filesystem::path(folder_) / name;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary);
  if (!out.write(content.data(), std::ssize(content)).flush())
    throw failed("{}: cannot be written: {}", path.string(), std::strerror(errno));
}

}  // namespace gabbro::report
