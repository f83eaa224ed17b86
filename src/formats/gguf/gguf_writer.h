// Writes GGUF v3 files: for tests and for tools that make model files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/formats/gguf/gguf_value.h"

namespace gabbro::gguf {

class Writer {
 public:
  // `alignment` of tensor data: a power of two from 8 on; one that is not the default 32 is stored in the file.
  explicit Writer(uint32_t alignment = 32);

  // Fields are written in the order in which they are added; adding a key twice throws. The type is the one named, for
  // readers other than ours are strict about it. Integers: u8 u16 u32 u64 i8 i16 i32 i64.
  void add_integer(std::string_view key, ValueType type, int64_t value);
  void add_u32(std::string_view key, uint32_t value) { add_integer(key, ValueType::u32, value); }
  void add_f32(std::string_view key, float value);
  void add_f64(std::string_view key, double value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string_view> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  void add_u32s(std::string_view key, std::span<const uint32_t> values);
  void add_bools(std::string_view key, const std::vector<bool>& values);

  // A field as another file has it.
  void add_value(std::string_view key, const Value& value);

  // `shape` is row-major (slowest first). `data` is not copied: it has to live until the file is written. Throws
  // bad_input for a type, shape or size that do not belong together.
  void add_tensor(std::string_view name, uint32_t ggml_type, std::span<const int64_t> shape,
                  std::span<const std::byte> data);
  // Adds a tensor without data: the file cannot be written then, but its header and tensor offsets are known.
  void declare_tensor(std::string_view name, uint32_t ggml_type, std::span<const int64_t> shape);

  std::vector<std::byte> bytes() const;
  void write(const std::string& path) const;  // whole or not at all

  struct Tensor {
    std::string name;
    uint32_t type;
    std::vector<int64_t> shape;
    size_t size;                      // bytes
    std::span<const std::byte> data;  // empty where it was only declared
  };
  std::span<const Tensor> tensors() const { return tensors_; }
  uint32_t alignment() const { return alignment_; }
  std::string header() const;  // all before the tensors, which follow in sequence, each aligned

 private:
  void begin_field(std::string_view key, ValueType type);
  template <class T>
  void add_numbers(std::string_view key, ValueType type, std::span<const T> values);
  std::vector<std::span<const std::byte>> pieces(const std::string& header) const;

  uint32_t alignment_;
  std::vector<std::string> keys_;
  std::string fields_;  // as they are in the file
  std::vector<Tensor> tensors_;
  std::vector<std::byte> padding_;
};

}  // namespace gabbro::gguf
