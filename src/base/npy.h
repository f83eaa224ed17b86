// NumPy's .npy files, version 1.0 (numpy.lib.format): n-dimensional arrays of f32 and i32, little-endian, in C order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gabbro {

template <class T>
struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<T> values;
};

// Writes the whole file or none of it. T is float or int32_t; throws bad_input where the shape has another number of
// elements than `values`, and failed() where the file cannot be written.
template <class T>
void write_npy(const std::string& path, std::span<const T> values, std::span<const int64_t> shape);

// The bytes of such a file before its values. Throws bad_input that names `path`, as write_npy does.
template <class T>
std::string npy_start(const std::string& path, std::span<const T> values, std::span<const int64_t> shape);

// Throws bad_input for a file that is not such an array of T.
template <class T>
NpyArray<T> read_npy(const std::string& path);

}  // namespace gabbro
