#include "src/formats/importance_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/base/quote.h"
#include "src/formats/foreign_file.h"
#include "src/formats/gguf/gguf.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/quant/finite.h"

namespace gabbro {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";
constexpr const char* kDatasets = "imatrix.datasets";
constexpr const char* kChunks = "imatrix.chunk_count";
constexpr const char* kChunkSize = "imatrix.chunk_size";

// The first value of an entry that is not a number from 0 on, and its place: "sums: nan at (0, 7)"; empty: none.
std::string find_damage(const Importance& entry) {
  for (const auto& [what, values] : {std::pair("sums", &entry.sums), {"counts", &entry.counts}}) {
    const auto found = std::ranges::find_if(*values, [](float value) { return !std::isfinite(value) || value < 0; });
    if (found == values->end()) continue;
    const int64_t length = values == &entry.sums ? std::max<int64_t>(entry.columns, 1) : 1;
    const int64_t shape[] = {std::ssize(*values) / length, length};
    return fmt::format("{}: {}", what, describe({found - values->begin(), *found}, shape));
  }
  return "";
}

void check_importance(const Importance& entry, const std::string& path, std::string_view name) {
  const std::string damage = find_damage(entry);
  if (damage.empty()) return;
  throw bad_input("{}: entry {} has values that are not numbers from 0 on: {}", path, quote(name), damage);
}

std::vector<float> floats_of(const gguf::TensorInfo& tensor, const std::string& path) {
  if (tensor.dtype() != DType::f32)
    throw bad_input("{}: tensor {} is {}, not F32", path, quote(tensor.name), tensor.type_name);
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(float));
  return values;
}

ImportanceMatrix read_gguf(const std::string& path) {
  const gguf::File file = gguf::File::open(path);
  if (file.string_or("general.type", "") != "imatrix")
    throw bad_input("{}: general.type is not \"imatrix\": this is not an importance matrix", path);
  ImportanceMatrix matrix;
  if (file.has(kDatasets)) {
    for (const std::string_view name : file.strings(kDatasets)) matrix.datasets.emplace_back(name);
  }
  matrix.chunks = file.u32_or(kChunks, 0);
  matrix.chunk_tokens = file.u32_or(kChunkSize, 0);
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (!tensor.name.ends_with(kSums)) continue;
    const std::string name(tensor.name.substr(0, tensor.name.size() - kSums.size()));
    const gguf::TensorInfo* const counts = file.tensor(name + std::string(kCounts));
    if (counts == nullptr) throw bad_input("{}: entry {} has sums without counts", path, quote(name));
    Importance entry{
        .columns = tensor.shape.back(), .sums = floats_of(tensor, path), .counts = floats_of(*counts, path)};
    if (std::ssize(entry.sums) != entry.columns * entry.experts()) {
      throw bad_input("{}: entry {} has {} sums of {} columns, and {} counts", path, quote(name), entry.sums.size(),
                      entry.columns, entry.experts());
    }
    check_importance(entry, path, name);
    matrix.entries.emplace(name, std::move(entry));
  }
  for (const auto& part : file.parts()) part->require_unchanged();
  if (matrix.entries.empty()) throw bad_input("{}: the importance matrix has no entries", path);
  return matrix;
}

// The older form: counts, names and values in sequence, without a magic number.
class DatReader {
 public:
  DatReader(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  ImportanceMatrix read() {
    ImportanceMatrix matrix;
    const int32_t entries = number("number of entries");
    // Each takes 12 bytes at least.
    if (entries < 1 || static_cast<size_t>(entries) > bytes_.size() / 12)
      throw bad_input("{}: not an importance matrix: {} entries in {} bytes", path_, entries, bytes_.size());
    for (int32_t i = 0; i < entries; ++i) {
      const std::string name = text();
      if (!matrix.entries.emplace(name, entry(name)).second)
        throw bad_input("{}: entry {} is there twice", path_, quote(name));
    }
    if (at_ == bytes_.size()) return matrix;
    matrix.chunks = static_cast<uint32_t>(std::max(0, number("number of chunks")));
    if (at_ < bytes_.size()) matrix.datasets.push_back(text());
    return matrix;
  }

 private:
  std::span<const std::byte> take(size_t count, std::string_view what) {
    if (count > bytes_.size() - at_) throw bad_input("{}: cut off in the {} at byte {}", path_, what, at_);
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }

  int32_t number(std::string_view what) {
    int32_t value = 0;
    std::memcpy(&value, take(sizeof(value), what).data(), sizeof(value));
    return value;
  }

  std::string text() {
    const int32_t length = number("length of a name");
    if (length < 0) throw bad_input("{}: a name of {} bytes at byte {}", path_, length, at_);
    const auto bytes = take(static_cast<size_t>(length), "name");
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text.substr(0, text.find('\0'));
  }

  // Values are means times the number of calls. How many experts they belong to is not in the file.
  Importance entry(const std::string& name) {
    const int32_t calls = number("number of calls"), count = number("number of values");
    if (count < 1) throw bad_input("{}: entry {} has {} values", path_, quote(name), count);
    const auto bytes = take(static_cast<size_t>(count) * sizeof(float), "values");
    Importance entry{.columns = count,
                     .sums = std::vector<float>(static_cast<size_t>(count)),
                     .counts = {static_cast<float>(std::max(calls, 1))}};
    std::memcpy(entry.sums.data(), bytes.data(), bytes.size());
    check_importance(entry, path_, name);
    return entry;
  }

  std::span<const std::byte> bytes_;
  const std::string& path_;
  size_t at_ = 0;
};

}  // namespace

ImportanceMatrix ImportanceMatrix::read(const std::string& path) {
  refuse_empty(path);
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0) return read_gguf(path);
  refuse_foreign(bytes, path, FileKind::kImportanceMatrix);
  ImportanceMatrix matrix = DatReader(bytes, path).read();
  file.require_unchanged();
  return matrix;
}

std::vector<std::byte> ImportanceMatrix::bytes(const std::string& path) const {
  for (const auto& [name, entry] : entries) {
    const std::string damage = find_damage(entry);
    if (damage.empty()) continue;
    throw Error(ErrorCode::kFailed,
                fmt::format("{}: not written: the inputs of {} are not numbers: {}", path, quote(name), damage),
                "the model's file may be damaged: gabbro inspect MODEL --check reads all of it");
  }
  gguf::Writer writer;
  writer.add_string("general.type", "imatrix");
  const std::vector<std::string_view> names(datasets.begin(), datasets.end());
  writer.add_strings(kDatasets, names);
  writer.add_u32(kChunks, chunks);
  writer.add_u32(kChunkSize, chunk_tokens);
  const uint32_t type = gguf::ggml_type_number(DType::f32);
  for (const auto& [name, entry] : entries) {
    const int64_t sums[] = {entry.experts(), entry.columns}, counts[] = {entry.experts(), 1};
    writer.add_tensor(name + std::string(kSums), type, sums, std::as_bytes(std::span(entry.sums)));
    writer.add_tensor(name + std::string(kCounts), type, counts, std::as_bytes(std::span(entry.counts)));
  }
  return writer.bytes();
}

void ImportanceMatrix::write(const std::string& path) const { write_file_atomically(path, bytes(path)); }

size_t ImportanceMatrix::digest() const {
  size_t digest = 0;
  const auto add = [&](std::string_view bytes) { digest = digest * 31 + std::hash<std::string_view>()(bytes); };
  for (const auto& [name, entry] : entries) {
    add(name);
    for (const std::vector<float>* const values : {&entry.sums, &entry.counts})
      add({reinterpret_cast<const char*>(values->data()), values->size() * sizeof(float)});
  }
  return digest;
}

std::vector<float> ImportanceMatrix::weights(const std::string& tensor, int64_t experts, int64_t columns,
                                             const std::string& path) const {
  const auto found = entries.find(tensor);
  if (found == entries.end()) return {};
  const Importance& entry = found->second;
  if (std::ssize(entry.sums) != experts * columns) {
    throw bad_input("{}: entry {} has {} values, the model's sizes ask for {}", path, quote(tensor), entry.sums.size(),
                    experts * columns);
  }
  std::vector<float> weights(entry.sums.size());
  const size_t per_count = weights.size() / entry.counts.size();
  for (size_t i = 0; i < weights.size(); ++i) {
    const float count = entry.counts[i / per_count];
    weights[i] = count > 0 ? entry.sums[i] / count : 1.0f;
  }
  return weights;
}

}  // namespace gabbro
