// The tensors of a checkpoint, with matrices of published forms in place of their parts.
#include <fmt/format.h>

#include <map>
#include <set>

#include "src/base/error.h"
#include "src/base/round_up.h"
#include "src/formats/checkpoint_state.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro {
namespace {

using published::Matrix;

constexpr size_t kPage = 4096;  // tensors share no page, so that each can be released

size_t bytes_of(const Matrix& matrix, DType dtype) {
  int64_t elements = 1;
  for (const int64_t length : matrix.shape) elements *= length;
  return dtype_bytes(dtype, static_cast<size_t>(elements));
}

// Reserved memory for the matrices of each file.
class Regions {
 public:
  explicit Regions(const std::vector<Matrix>& matrices) {
    for (const Matrix& m : matrices) {
      size_t& bytes = regions_[file_of(m)].bytes;
      bytes += round_up(bytes_of(m, m.dtype), kPage);
      if (m.ordered) bytes += round_up(bytes_of(m, m.ordered->dtype), kPage);
    }
    for (auto& [file, region] : regions_) region.memory = reserve_memory(file->path(), region.bytes);
  }

  CheckpointTensor tensor(const Matrix& m, std::string_view name) {
    CheckpointTensor result = form(m, name, m.dtype, m.fill);
    if (m.ordered) {
      result.ordered = std::make_shared<const OrderedColumns>(
          OrderedColumns{form(m, name, m.ordered->dtype, m.ordered->fill), m.ordered->order});
    }
    return result;
  }

 private:
  struct Region {
    size_t bytes = 0, used = 0;
    std::shared_ptr<const MappedFile> memory;
  };
  CheckpointTensor form(const Matrix& m, std::string_view name, DType dtype, const FillData& fill) {
    Region& region = regions_[file_of(m)];
    const size_t bytes = bytes_of(m, dtype);
    // The memory is mapped for writing; the checkpoint's other files are not.
    auto* const data = const_cast<std::byte*>(region.memory->bytes().data()) + region.used;
    region.used += round_up(bytes, kPage);
    std::vector<CheckpointTensor> parts;
    for (const CheckpointTensor* part : m.parts) parts.push_back(*part);
    FillData fill_and_release = [fill, parts = std::move(parts)](std::span<std::byte> out) {
      fill(out);
      for (const CheckpointTensor& part : parts) part.release();
    };
    const std::span<std::byte> memory(data, bytes);
    return {.name = name,
            .format = m.format,
            .known_dtype = dtype,
            .shape = m.shape,
            .data = memory,
            .file = region.memory,
            .derived = std::make_shared<DerivedData>(region.memory, memory, std::move(fill_and_release))};
  }

  static const MappedFile* file_of(const Matrix& m) { return m.parts.front()->file.get(); }

  std::map<const MappedFile*, Region> regions_;
};

}  // namespace

void Checkpoint::State::replace_tensors(std::vector<Matrix> matrices) {
  if (matrices.empty()) return;
  std::map<std::string_view, const Matrix*> made;  // by the name of the first part
  std::set<std::string_view> used;
  std::map<std::string, size_t> reasons;
  for (const Matrix& m : matrices) {
    made[m.parts.front()->name] = &m;
    for (const CheckpointTensor* part : m.parts) used.insert(part->name);
    if (!m.dequantized_for.empty())
      ++reasons[fmt::format("{} matrices: as {}, since", m.format, dtype_name(m.dtype)) + " " +
                std::string(m.dequantized_for)];
  }
  Regions regions(matrices);
  std::vector<CheckpointTensor> all;
  for (const CheckpointTensor& tensor : tensors) {
    if (const auto found = made.find(tensor.name); found != made.end()) {
      all.push_back(regions.tensor(*found->second, names.emplace_back(found->second->name)));
    } else if (!used.contains(tensor.name)) {
      all.push_back(tensor);
    }
  }
  index.clear();
  tensors.clear();
  for (CheckpointTensor& tensor : all) add_tensor(std::move(tensor));
  for (const auto& [reason, count] : reasons) notes.push_back(fmt::format("{} {}", count, reason));
}

}  // namespace gabbro
