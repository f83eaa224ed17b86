#include "src/formats/gguf/gguf_writer.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/base/quote.h"
#include "src/base/round_up.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro::gguf {
namespace {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_string(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out += text;
}

const GgmlType& known_type(std::string_view name, uint32_t ggml_type) {
  const GgmlType* type = find_ggml_type(ggml_type);
  if (type == nullptr) throw bad_input("tensor {}: ggml type {} is not known", quote(name), ggml_type);
  return *type;
}

// Empty if the shape is invalid, or its rows are not a whole number of blocks.
std::optional<size_t> bytes_of(const GgmlType& type, std::span<const int64_t> shape) {
  const int64_t row = shape.empty() ? 1 : shape.back();
  const bool positive = std::all_of(shape.begin(), shape.end(), [](int64_t dimension) { return dimension > 0; });
  if (!positive || row % type.block_elements != 0) return {};
  size_t blocks = 1;
  for (const int64_t dimension : shape) blocks *= static_cast<size_t>(dimension);
  return blocks / type.block_elements * type.block_bytes;
}

}  // namespace

Writer::Writer(uint32_t alignment) : alignment_(alignment), padding_(alignment) {
  if (alignment < 8 || (alignment & (alignment - 1)) != 0) {
    throw bad_input("a GGUF alignment of {} is not a power of two from 8 on", alignment);
  }
  if (alignment != 32) add_u32("general.alignment", alignment);
}

void Writer::begin_field(std::string_view key, ValueType type) {
  if (std::find(keys_.begin(), keys_.end(), key) != keys_.end())
    throw bad_input("metadata {} is there twice", quote(key));
  keys_.emplace_back(key);
  put_string(fields_, key);
  put(fields_, type);
}

void Writer::add_integer(std::string_view key, ValueType type, int64_t value) {
  if (type == ValueType::f32 || type == ValueType::boolean || value_type_size(type) == 0 || type == ValueType::f64) {
    throw bad_input("metadata {}: {} is not a type of integers", quote(key), value_type_name(type));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);  // the low ones come first
  if (Value(type, bytes).as<int64_t>() != value) {
    throw bad_input("metadata {}: {} does not fit {}", quote(key), value, value_type_name(type));
  }
  begin_field(key, type);
  fields_.append(reinterpret_cast<const char*>(bytes), value_type_size(type));
}

void Writer::add_f32(std::string_view key, float value) {
  begin_field(key, ValueType::f32);
  put(fields_, value);
}

void Writer::add_f64(std::string_view key, double value) {
  begin_field(key, ValueType::f64);
  put(fields_, value);
}

void Writer::add_bool(std::string_view key, bool value) {
  begin_field(key, ValueType::boolean);
  put<uint8_t>(fields_, value ? 1 : 0);
}

void Writer::add_string(std::string_view key, std::string_view value) {
  begin_field(key, ValueType::string);
  put_string(fields_, value);
}

void Writer::add_strings(std::string_view key, std::span<const std::string_view> values) {
  begin_field(key, ValueType::array);
  put(fields_, ValueType::string);
  put<uint64_t>(fields_, values.size());
  for (const std::string_view value : values) put_string(fields_, value);
}

template <class T>
void Writer::add_numbers(std::string_view key, ValueType type, std::span<const T> values) {
  begin_field(key, ValueType::array);
  put(fields_, type);
  put<uint64_t>(fields_, values.size());
  for (const T value : values) put(fields_, value);
}

void Writer::add_f32s(std::string_view key, std::span<const float> values) { add_numbers(key, ValueType::f32, values); }
void Writer::add_i32s(std::string_view key, std::span<const int32_t> values) {
  add_numbers(key, ValueType::i32, values);
}
void Writer::add_u32s(std::string_view key, std::span<const uint32_t> values) {
  add_numbers(key, ValueType::u32, values);
}

void Writer::add_bools(std::string_view key, const std::vector<bool>& values) {
  const std::vector<uint8_t> bytes(values.begin(), values.end());
  add_numbers(key, ValueType::boolean, std::span<const uint8_t>(bytes));
}

void Writer::add_value(std::string_view key, const Value& value) {
  begin_field(key, value.type());
  fields_.append(reinterpret_cast<const char*>(value.data()), value.bytes());
}

void Writer::declare_tensor(std::string_view name, uint32_t ggml_type, std::span<const int64_t> shape) {
  const GgmlType& type = known_type(name, ggml_type);
  const std::optional<size_t> size = bytes_of(type, shape);
  if (!size) throw bad_input("tensor {}: its shape is not one of whole blocks of {}", quote(name), type.name);
  tensors_.push_back({std::string(name), ggml_type, {shape.begin(), shape.end()}, *size, {}});
}

void Writer::add_tensor(std::string_view name, uint32_t ggml_type, std::span<const int64_t> shape,
                        std::span<const std::byte> data) {
  const GgmlType& type = known_type(name, ggml_type);
  if (bytes_of(type, shape) != data.size()) {
    throw bad_input("tensor {}: {} bytes are not what its shape has in {}", quote(name), data.size(), type.name);
  }
  tensors_.push_back({std::string(name), ggml_type, {shape.begin(), shape.end()}, data.size(), data});
}

std::string Writer::header() const {
  std::string out = "GGUF";
  put<uint32_t>(out, 3);
  put<uint64_t>(out, tensors_.size());
  put<uint64_t>(out, keys_.size());
  out += fields_;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put_string(out, tensor.name);
    put<uint32_t>(out, static_cast<uint32_t>(tensor.shape.size()));
    for (auto dimension = tensor.shape.rbegin(); dimension != tensor.shape.rend(); ++dimension) put(out, *dimension);
    put(out, tensor.type);
    put(out, offset);
    offset += round_up(tensor.size, alignment_);
  }
  out.resize(round_up(out.size(), alignment_));
  return out;
}

std::vector<std::span<const std::byte>> Writer::pieces(const std::string& header) const {
  std::vector<std::span<const std::byte>> out = {std::as_bytes(std::span(header))};
  for (const Tensor& tensor : tensors_) {
    if (tensor.data.empty()) throw bad_input("tensor {} has no data", quote(tensor.name));
    out.push_back(tensor.data);
    out.push_back(std::span(padding_).first(round_up(tensor.size, alignment_) - tensor.size));
  }
  return out;
}

std::vector<std::byte> Writer::bytes() const {
  const std::string start = header();
  std::vector<std::byte> out;
  for (const std::span<const std::byte> piece : pieces(start)) out.insert(out.end(), piece.begin(), piece.end());
  return out;
}

void Writer::write(const std::string& path) const {
  const std::string start = header();
  write_file_atomically(path, pieces(start));
}

}  // namespace gabbro::gguf
