#include "src/formats/gguf/gguf_parse.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_set>

#include "src/base/quote.h"
#include "src/base/round_up.h"
#include "src/formats/gguf/gguf_cursor.h"

namespace gabbro::gguf {
namespace {

constexpr int kMaxArrayDepth = 4;                    // arrays in arrays: the format sets no limit, models use depth 1
constexpr uint32_t kMaxDimensions = 4;               // GGML_MAX_DIMS
constexpr uint64_t kMaxNameLength = 65535;           // the specification's limit on keys
constexpr uint32_t kDefaultAlignment = 32;           // GGUF_DEFAULT_ALIGNMENT
constexpr uint64_t kDataAlignment = 8;               // of tensors, which are read in place
constexpr uint64_t kSmallestField = 8 + 4 + 1;       // an empty key, a type, a byte
constexpr uint64_t kSmallestTensor = 8 + 4 + 4 + 8;  // an empty name, the number of dimensions, a type, an offset

void check_magic(Cursor& cursor, std::string_view name) {
  refuse_foreign(cursor.bytes(), name, FileKind::kGguf);
  const std::string_view magic(reinterpret_cast<const char*>(cursor.take(4, "magic")), 4);
  if (magic != "GGUF") cursor.fail(0, "magic", "this is not a GGUF file, it starts with {}", quote(magic));
}

uint32_t read_version(Cursor& cursor) {
  const auto version = cursor.read<uint32_t>("version");
  if (version == 2 || version == 3) return version;
  if (version != 0 && (version & 0xffff) == 0) cursor.fail(4, "version", "big-endian files are not supported");
  cursor.fail(4, "version", "version {} is not supported, only 2 and 3 are", version);
}

// A number of things of at least `smallest` bytes each.
uint64_t read_count(Cursor& cursor, std::string_view field, uint64_t smallest) {
  const size_t offset = cursor.position();
  const auto count = cursor.read<uint64_t>(field);
  if (count > cursor.remaining() / smallest) {
    cursor.fail_early_end(offset, field, "{} are more than the {} bytes left can hold", count, cursor.remaining());
  }
  return count;
}

std::string_view read_name(Cursor& cursor, std::string_view field) {
  const size_t offset = cursor.position();
  const std::string_view name = cursor.read_string(field);
  if (name.empty()) cursor.fail(offset, field, "it is empty");
  if (name.size() > kMaxNameLength) cursor.fail(offset, field, "{} bytes are too long for a name", name.size());
  return name;
}

ValueType read_value_type(Cursor& cursor, std::string_view field) {
  const size_t offset = cursor.position();
  const auto type = cursor.read<uint32_t>(field);
  if (type >= kValueTypeCount) cursor.fail(offset, field, "{} is not a type of metadata", type);
  return static_cast<ValueType>(type);
}

void check_booleans(Cursor& cursor, const std::byte* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const auto value = std::to_integer<unsigned>(values[i]);
    if (value > 1) {
      cursor.fail(static_cast<size_t>(values + i - cursor.bytes().data()), "value", "{} is not a bool", value);
    }
  }
}

// Steps over a value and checks all that it holds.
void check_value(Cursor& cursor, ValueType type, int depth) {
  if (type == ValueType::string) {
    cursor.read_string("value");
    return;
  }
  if (type != ValueType::array) {
    const std::byte* value = cursor.take(value_type_size(type), "value");
    if (type == ValueType::boolean) check_booleans(cursor, value, 1);
    return;
  }
  if (depth == kMaxArrayDepth) {
    cursor.fail(cursor.position(), "value", "arrays are nested more than {} deep", kMaxArrayDepth);
  }
  const ValueType element = read_value_type(cursor, "element type");
  const size_t size = value_type_size(element);
  if (size != 0) {
    const uint64_t count = read_count(cursor, "array length", size);
    const std::byte* values = cursor.take(count * size, "array");
    if (element == ValueType::boolean) check_booleans(cursor, values, count);
    return;
  }
  const uint64_t smallest = element == ValueType::string ? 8 : 12;
  const uint64_t count = read_count(cursor, "array length", smallest);
  for (uint64_t i = 0; i < count; ++i) check_value(cursor, element, depth + 1);
}

std::vector<Field> read_fields(Cursor& cursor, uint64_t count) {
  std::vector<Field> fields;
  std::unordered_set<std::string_view> keys;
  for (uint64_t i = 0; i < count; ++i) {
    cursor.about("metadata", i);
    const size_t offset = cursor.position();
    const std::string_view key = read_name(cursor, "key");
    cursor.about("metadata", key);
    if (!keys.insert(key).second) cursor.fail(offset, "key", "it is there twice");
    const ValueType type = read_value_type(cursor, "type");
    fields.push_back({key, Value(type, cursor.here())});
    check_value(cursor, type, 0);
  }
  cursor.about({}, 0);
  return fields;
}

uint32_t alignment_of(const Part& part, const Cursor& cursor) {
  const Value* value = part.find("general.alignment");
  if (value == nullptr) return kDefaultAlignment;
  const auto alignment = value->as<uint32_t>().value_or(0);
  // The specification asks for a multiple of 8; all that reads it asks for a power of two.
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    cursor.fail(static_cast<size_t>(value->data() - cursor.bytes().data()), "general.alignment",
                "{} is not a power of two", value->describe());
  }
  return alignment;
}

// A tensor of the table, as the file describes it.
struct Entry {
  TensorInfo info;
  uint64_t bytes;
  uint64_t offset;          // from the start of the data section
  size_t offset_of_offset;  // in the file, for messages
};

// Row-major shape; checks that the number of elements fits int64.
std::vector<int64_t> read_shape(Cursor& cursor) {
  const size_t offset = cursor.position();
  const auto dimensions = cursor.read<uint32_t>("number of dimensions");
  if (dimensions > kMaxDimensions) {
    cursor.fail(offset, "number of dimensions", "{} are more than {}", dimensions, kMaxDimensions);
  }
  std::vector<int64_t> shape(dimensions);
  int64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    const size_t at = cursor.position();
    const auto dimension = cursor.read<int64_t>("dimension");
    if (dimension <= 0) cursor.fail(at, "dimension", "{} is not a size", static_cast<uint64_t>(dimension));
    if (elements > std::numeric_limits<int64_t>::max() / dimension) {
      cursor.fail(at, "dimension", "{} makes more elements than can be counted", dimension);
    }
    elements *= dimension;
    shape[dimensions - 1 - i] = dimension;
  }
  return shape;
}

uint64_t bytes_of(const Cursor& cursor, size_t offset, const GgmlType& type, const std::vector<int64_t>& shape) {
  const auto row = static_cast<uint64_t>(shape.empty() ? 1 : shape.back());
  if (row % type.block_elements != 0) {
    cursor.fail(offset, "type", "rows of {} are not a number of {} blocks of {} elements", row, type.name,
                type.block_elements);
  }
  uint64_t elements = 1;
  for (const int64_t dimension : shape) elements *= static_cast<uint64_t>(dimension);
  const uint64_t blocks = elements / type.block_elements;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(blocks, type.block_bytes, &bytes))
    cursor.fail(offset, "type", "{} elements of {} are more than the file's {} bytes can hold", elements, type.name,
                cursor.bytes().size());
  return bytes;
}

Entry read_entry(Cursor& cursor, uint64_t number, std::unordered_set<std::string_view>& names) {
  cursor.about("tensor", number);
  Entry entry = {};
  TensorInfo& info = entry.info;
  const size_t start = cursor.position();
  info.name = read_name(cursor, "name");
  cursor.about("tensor", info.name);
  if (!names.insert(info.name).second) cursor.fail(start, "name", "it is there twice");
  info.shape = read_shape(cursor);
  const size_t offset_of_type = cursor.position();
  info.ggml_type = cursor.read<uint32_t>("type");
  const GgmlType* type = find_ggml_type(info.ggml_type);
  if (type == nullptr) cursor.fail(offset_of_type, "type", "ggml type {} is not known", info.ggml_type);
  info.type_name = type->name;
  entry.bytes = bytes_of(cursor, offset_of_type, *type, info.shape);
  entry.offset_of_offset = cursor.position();
  entry.offset = cursor.read<uint64_t>("offset");
  return entry;
}

// Bytes of the whole file, as its tensors have it; nothing where they cannot be counted.
std::optional<uint64_t> expected_size(const std::vector<Entry>& entries, uint64_t data_start) {
  uint64_t size = data_start;
  for (const Entry& entry : entries) {
    uint64_t end = 0;
    if (__builtin_add_overflow(entry.offset, entry.bytes, &end) || __builtin_add_overflow(end, data_start, &end))
      return std::nullopt;
    size = std::max(size, end);
  }
  return size;
}

void place(Cursor& cursor, Entry& entry, uint64_t data_start, uint32_t alignment, std::optional<uint64_t> expected) {
  cursor.about("tensor", entry.info.name);
  const uint64_t size = cursor.bytes().size();
  if (entry.offset % alignment != 0) {
    cursor.fail(entry.offset_of_offset, "offset", "{} is not a multiple of {}", entry.offset, alignment);
  }
  const auto hint = [&] { return unfinished_hint(size, expected); };
  if (entry.bytes > size) {
    cursor.fail_with_hint(hint(), entry.offset_of_offset, "offset",
                          "{} bytes are more than the file's {} bytes can hold", entry.bytes, size);
  }
  if (data_start > size || entry.offset > size - data_start || entry.bytes > size - data_start - entry.offset) {
    cursor.fail_with_hint(hint(), entry.offset_of_offset, "offset",
                          "{} bytes at {} of the data are outside the file of {} bytes", entry.bytes, entry.offset,
                          size);
  }
  if ((data_start + entry.offset) % kDataAlignment != 0) {
    cursor.fail(entry.offset_of_offset, "offset", "its data begin at byte {}, which is not a multiple of {}",
                data_start + entry.offset, kDataAlignment);
  }
  entry.info.data = cursor.bytes().subspan(data_start + entry.offset, entry.bytes);
}

void check_overlap(Cursor& cursor, const std::vector<Entry>& entries) {
  std::vector<const Entry*> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset + order[i - 1]->bytes <= order[i]->offset) continue;
    cursor.about("tensor", order[i]->info.name);
    cursor.fail(order[i]->offset_of_offset, "offset", "its data at {} overlap the data of {}", order[i]->offset,
                quote(order[i - 1]->info.name));
  }
}

std::vector<TensorInfo> read_tensors(Cursor& cursor, uint64_t count, uint32_t alignment) {
  std::vector<Entry> entries;
  std::unordered_set<std::string_view> names;
  for (uint64_t i = 0; i < count; ++i) entries.push_back(read_entry(cursor, i, names));
  const uint64_t data_start = round_up(uint64_t{cursor.position()}, alignment);
  const auto expected = expected_size(entries, data_start);
  for (Entry& entry : entries) place(cursor, entry, data_start, alignment, expected);
  check_overlap(cursor, entries);
  std::vector<TensorInfo> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) tensors.push_back(std::move(entry.info));
  return tensors;
}

}  // namespace

const Value* Part::find(std::string_view key) const {
  const auto field = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.key == key; });
  return field == fields.end() ? nullptr : &field->value;
}

Part parse(std::span<const std::byte> bytes, std::string_view name) {
  Cursor cursor(bytes, name);
  check_magic(cursor, name);
  Part part = {};
  part.version = read_version(cursor);
  const uint64_t tensor_count = read_count(cursor, "number of tensors", kSmallestTensor);
  const uint64_t field_count = read_count(cursor, "number of metadata fields", kSmallestField);
  part.fields = read_fields(cursor, field_count);
  part.alignment = alignment_of(part, cursor);
  part.tensors = read_tensors(cursor, tensor_count, part.alignment);
  return part;
}

}  // namespace gabbro::gguf
