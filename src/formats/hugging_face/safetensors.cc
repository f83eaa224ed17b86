#include "src/formats/hugging_face/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/base/round_up.h"
#include "src/formats/foreign_file.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/hugging_face/safetensors_header.h"

namespace gabbro::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and is read in place");

struct ElementType {
  std::string_view name;
  uint64_t bits;
  std::optional<DType> dtype;  // none: the format has it, and we have not
};

constexpr ElementType kTypes[] = {
    {"F32", 32, DType::f32},   {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16}, {"F64", 64, DType::f64},
    {"I8", 8, DType::i8},      {"U8", 8, DType::u8},
    {"I16", 16, DType::i16},   {"I32", 32, DType::i32},
    {"I64", 64, DType::i64},   {"BOOL", 8, DType::boolean},
    {"U16", 16, {}},           {"U32", 32, {}},
    {"U64", 64, {}},           {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, {}},        {"F8_E8M0", 8, {}},
    {"C64", 64, {}},           {"F4", 4, {}},
    {"F6_E2M3", 6, {}},        {"F6_E3M2", 6, {}},
    {"F8_E4M3FNUZ", 8, {}},    {"F8_E5M2FNUZ", 8, {}},
};

constexpr size_t kLengthBytes = 8;
// More elements than this fit in no memory, and fewer leave room to count bits.
constexpr uint64_t kMostElements = uint64_t{1} << 56;

const ElementType* find_type(std::string_view name) {
  const auto* found = std::ranges::find(kTypes, name, &ElementType::name);
  return found == std::end(kTypes) ? nullptr : found;
}

// The bytes that a shape of this type takes; none where there are too many, or no whole number of them.
std::optional<uint64_t> bytes_of(const std::vector<uint64_t>& shape, const ElementType& type) {
  if (std::ranges::find(shape, 0U) != shape.end()) {
    const bool small = std::ranges::all_of(shape, [](uint64_t length) { return length <= kMostElements; });
    return small ? std::optional<uint64_t>(0) : std::nullopt;
  }
  uint64_t elements = 1;
  for (const uint64_t length : shape) {
    if (length > kMostElements / elements) return {};
    elements *= length;
  }
  const uint64_t bits = elements * type.bits;
  return bits % 8 == 0 ? std::optional(bits / 8) : std::nullopt;
}

std::shared_ptr<const MappedFile> open_whole(const std::string& path) {
  refuse_empty(path);
  return std::make_shared<const MappedFile>(path);
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  constexpr size_t kMostShown = 8;
  std::string text;
  for (size_t i = 0; i < shape.size() && i < kMostShown; ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return "(" + text + (shape.size() > kMostShown ? ", ...)" : ")");
}

}  // namespace

std::optional<DType> TensorInfo::known_dtype() const {
  const ElementType* type = find_type(dtype_name);
  return type != nullptr ? type->dtype : std::nullopt;
}

DType TensorInfo::dtype() const {
  if (const auto dtype = known_dtype()) return *dtype;
  throw bad_input("tensor {}: is {}, which is none of our dtypes", quote(name), dtype_name);
}

namespace {

// The JSON text after the length of the header.
std::string_view header_text(std::span<const std::byte> bytes, std::string_view name) {
  if (bytes.size() < kLengthBytes) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: header length: the file ends at byte {}", name, bytes.size()),
                unfinished_hint(bytes.size()));
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMostHeaderBytes)
    throw bad_input("{}: this is not a safetensors file: the {} bytes of its header (byte 0) are more than {}", name,
                    length, kMostHeaderBytes);
  if (length > bytes.size() - kLengthBytes) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{}: header length: {} bytes at byte 0, and the file ends at byte {}", name, length, bytes.size()),
        unfinished_hint(bytes.size()));
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  if (length == 0 || *text != '{') throw bad_input("{}: the header is not JSON at byte {}", name, kLengthBytes);
  return {text, static_cast<size_t>(length)};
}

}  // namespace

Contents parse(std::span<const std::byte> bytes, std::string_view name) {
  refuse_foreign(bytes, name, FileKind::kSafetensors);
  const std::string_view text = header_text(bytes, name);
  Header header = read_header(text, name, kLengthBytes);
  const size_t data_begin = kLengthBytes + text.size();
  const std::span<const std::byte> data = bytes.subspan(data_begin);

  std::ranges::stable_sort(header.entries, [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  Contents contents;
  contents.metadata = std::move(header.metadata);
  uint64_t end = 0;
  for (HeaderEntry& entry : header.entries) {
    const ElementType* type = find_type(entry.dtype);
    if (type == nullptr)
      throw bad_input("{}: tensor {}: dtype {} is not known", name, quote(entry.name), quote(entry.dtype));
    const std::optional<uint64_t> size = bytes_of(entry.shape, *type);
    if (!size)
      throw bad_input("{}: tensor {}: shape {} is too large", name, quote(entry.name), shape_text(entry.shape));
    if (entry.begin != end) {
      throw bad_input("{}: tensor {}: its data begin at byte {} of the data, and what is before ends at {}", name,
                      quote(entry.name), entry.begin, end);
    }
    if (entry.end < entry.begin || entry.end > data.size()) {
      const uint64_t whole = data_begin + header.entries.back().end;
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{}: tensor {}: its data end at byte {}, of {} that there are", name, quote(entry.name),
                              entry.end, data.size()),
                  entry.end > entry.begin && header.entries.back().end > data.size()
                      ? unfinished_hint(bytes.size(), whole)
                      : "");
    }
    end = entry.end;
    if (end - entry.begin != *size) {
      throw bad_input("{}: tensor {}: {} bytes, and {} {} takes {}", name, quote(entry.name), end - entry.begin,
                      entry.dtype, shape_text(entry.shape), *size);
    }
    TensorInfo& info = contents.tensors.emplace_back();
    info.data = data.subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(*size));
    info.shape.assign(entry.shape.begin(), entry.shape.end());
    info.name = std::move(entry.name);
    info.dtype_name = std::move(entry.dtype);
  }
  if (end != data.size()) {
    throw bad_input("{}: {} bytes from byte {} on belong to no tensor", name, data.size() - end, data_begin + end);
  }
  return contents;
}

File::File(const std::string& path) : mapped_(open_whole(path)), contents_(parse(mapped_->bytes(), path)) {}

const TensorInfo* File::tensor(std::string_view name) const {
  const auto found = std::ranges::find(contents_.tensors, name, &TensorInfo::name);
  return found == contents_.tensors.end() ? nullptr : &*found;
}

void write(const std::string& path, std::span<const TensorData> tensors,
           const std::map<std::string, std::string>& metadata) {
  struct Part {
    const TensorData* tensor;
    const ElementType* type;
  };
  std::vector<Part> parts;
  std::unordered_set<std::string_view> names{"__metadata__"};
  for (const TensorData& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      throw bad_input("{}: tensor {}: the name is taken", path, quote(tensor.name));
    const auto* type = std::ranges::find(kTypes, std::optional(tensor.dtype), &ElementType::dtype);
    if (type == std::end(kTypes)) {
      throw bad_input("{}: tensor {}: the format has no {}", path, quote(tensor.name), dtype_name(tensor.dtype));
    }
    parts.push_back({&tensor, type});
  }
  std::ranges::stable_sort(parts, [](const Part& a, const Part& b) { return a.type->bits > b.type->bits; });
  Header header{.entries = {}, .metadata = metadata};
  std::vector<std::span<const std::byte>> pieces(1);
  uint64_t end = 0;
  for (const Part& part : parts) {
    HeaderEntry& entry = header.entries.emplace_back();
    entry.name = part.tensor->name;
    entry.dtype = part.type->name;
    entry.shape.assign(part.tensor->shape.begin(), part.tensor->shape.end());
    entry.begin = end;
    entry.end = end += part.tensor->data.size();
    if (bytes_of(entry.shape, *part.type) != part.tensor->data.size()) {
      throw bad_input("{}: tensor {}: {} bytes for {} {}", path, quote(entry.name), part.tensor->data.size(),
                      entry.dtype, shape_text(entry.shape));
    }
    pieces.push_back(part.tensor->data);
  }
  std::string text = write_header(header);
  text.resize(round_up(text.size(), kLengthBytes), ' ');
  const uint64_t length = text.size();
  text.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
  pieces[0] = std::as_bytes(std::span(text));
  write_file_atomically(path, pieces);
}

}  // namespace gabbro::safetensors
