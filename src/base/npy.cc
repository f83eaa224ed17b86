#include "src/base/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they are in memory");

constexpr std::string_view kMagic{"\x93NUMPY\x01\x00", 8};
constexpr size_t kPreamble = kMagic.size() + 2;  // and the u16 length of the header
constexpr size_t kAlignment = 64;                // the format's, of the values

template <class T>
constexpr std::string_view kDescription = std::is_same_v<T, float> ? "<f4" : "<i4";

// Empty where it is negative or more than int64 holds.
std::optional<uint64_t> count_elements(std::span<const int64_t> shape) {
  uint64_t count = 1;
  for (const int64_t dimension : shape) {
    const auto size = static_cast<uint64_t>(dimension);
    if (dimension < 0 || (size != 0 && count > std::numeric_limits<int64_t>::max() / size)) return {};
    count *= size;
  }
  return count;
}

std::string make_header(std::string_view description, std::span<const int64_t> shape) {
  std::string dimensions;
  for (const int64_t dimension : shape) dimensions += fmt::format("{}, ", dimension);
  if (shape.size() > 1) dimensions.resize(dimensions.size() - 2);
  if (shape.size() == 1) dimensions.pop_back();  // "(3,)"
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", description, dimensions);
  header.resize((kPreamble + header.size() + kAlignment) / kAlignment * kAlignment - kPreamble, ' ');
  header.back() = '\n';
  return header;
}

// The text after `key` in the header, without spaces before it; empty where it is not there.
std::string_view after(std::string_view header, std::string_view key) {
  const size_t found = header.find(key);
  if (found == std::string_view::npos) return {};
  header.remove_prefix(found + key.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

// "(2, 3)", "(3,)" or "()".
std::optional<std::vector<int64_t>> parse_shape(std::string_view text) {
  const size_t close = text.find(')');
  if (!text.starts_with('(') || close == std::string_view::npos) return {};
  text = text.substr(1, close - 1);
  std::vector<int64_t> shape;
  while (text.find_first_not_of(' ') != std::string_view::npos) {
    text.remove_prefix(text.find_first_not_of(' '));
    int64_t dimension = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dimension);
    if (error != std::errc()) return {};
    shape.push_back(dimension);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() && text[0] != ',') return {};
    text.remove_prefix(text.empty() ? 0 : 1);
  }
  return shape;
}

}  // namespace

template <class T>
std::string npy_start(const std::string& path, std::span<const T> values, std::span<const int64_t> shape) {
  if (count_elements(shape) != values.size()) {
    throw bad_input("{}: {} values do not fill the shape", path, values.size());
  }
  const std::string header = make_header(kDescription<T>, shape);
  std::string start(kMagic);
  const auto length = static_cast<uint16_t>(header.size());
  start.append(reinterpret_cast<const char*>(&length), sizeof length);
  return start + header;
}

template <class T>
void write_npy(const std::string& path, std::span<const T> values, std::span<const int64_t> shape) {
  const std::string start = npy_start(path, values, shape);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(start)), std::as_bytes(values)};
  write_file_atomically(path, pieces);
}

template <class T>
NpyArray<T> read_npy(const std::string& path) {
  const std::string file = read_file(path);
  if (file.size() < kPreamble || !file.starts_with(kMagic))
    throw bad_input("{}: is not a .npy file of version 1", path);
  uint16_t length;
  std::memcpy(&length, file.data() + kMagic.size(), sizeof length);
  if (length > file.size() - kPreamble) throw bad_input("{}: the header ends behind the end of the file", path);
  const std::string_view header = std::string_view(file).substr(kPreamble, length);
  const std::string_view body = std::string_view(file).substr(kPreamble + length);
  if (!after(header, "'descr':").starts_with(fmt::format("'{}'", kDescription<T>)) ||
      !after(header, "'fortran_order':").starts_with("False")) {
    throw bad_input("{}: the header is not that of an array of {} in C order", path, kDescription<T>);
  }
  const auto shape = parse_shape(after(header, "'shape':"));
  const auto count = shape ? count_elements(*shape) : std::nullopt;
  if (!count) throw bad_input("{}: the header holds no shape", path);
  if (*count > body.size() / sizeof(T) || *count * sizeof(T) != body.size()) {
    throw bad_input("{}: {} bytes are not the {} values of the shape", path, body.size(), *count);
  }
  NpyArray<T> array{*shape, std::vector<T>(*count)};
  if (*count != 0) std::memcpy(array.values.data(), body.data(), body.size());
  return array;
}

template std::string npy_start(const std::string&, std::span<const float>, std::span<const int64_t>);
template void write_npy(const std::string&, std::span<const float>, std::span<const int64_t>);
template void write_npy(const std::string&, std::span<const int32_t>, std::span<const int64_t>);
template NpyArray<float> read_npy(const std::string&);
template NpyArray<int32_t> read_npy(const std::string&);

}  // namespace gabbro
