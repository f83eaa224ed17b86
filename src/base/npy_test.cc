#include "src/base/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>

#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string fixture(const std::string& name) { return std::string(GABBRO_SOURCE_DIR) + "/tests/data/base/" + name; }

std::string out_path() { return testing::TempDir() + "gabbro_npy_test.npy"; }

// Our file equals numpy.save's of the same array byte for byte, and reads back.
template <class T>
void expect_as_numpy(const std::string& name, const std::vector<T>& values, const std::vector<int64_t>& shape) {
  write_npy<T>(out_path(), values, shape);
  EXPECT_EQ(read_file(out_path()), read_file(fixture(name))) << name;
  const NpyArray<T> back = read_npy<T>(fixture(name));
  EXPECT_EQ(back.shape, shape);
  EXPECT_EQ(back.values, values);
  std::filesystem::remove(out_path());
}

TEST(Npy, WritesAndReadsWhatNumpyWrites) {
  expect_as_numpy<float>("matrix_f32.npy", {0, 0.25f, 0.5f, 0.75f, 1, 1.25f}, {2, 3});
  expect_as_numpy<int32_t>("vector_i32.npy", {-1, 0, std::numeric_limits<int32_t>::max()}, {3});
  expect_as_numpy<float>("scalar_f32.npy", {1.5f}, {});
  expect_as_numpy<float>("empty_f32.npy", {}, {0, 5});
  std::vector<int32_t> cube(24);
  std::iota(cube.begin(), cube.end(), 0);
  expect_as_numpy<int32_t>("cube_i32.npy", cube, {2, 3, 4});
}

std::string error_of(const std::string& bytes) {
  std::ofstream(out_path(), std::ios::binary) << bytes;
  try {
    read_npy<float>(out_path());
  } catch (const Error& error) {
    std::filesystem::remove(out_path());
    return error.what();
  }
  return "(no error)";
}

TEST(Npy, RefusesAnotherArray) {
  EXPECT_THROW(read_npy<float>(fixture("vector_i32.npy")), Error);
  EXPECT_THROW(read_npy<int32_t>(fixture("scalar_f32.npy")), Error);
  EXPECT_THROW(read_npy<float>(fixture("fortran_f32.npy")), Error);
  EXPECT_THROW(read_npy<float>(fixture("none.npy")), Error);
  const std::string whole = read_file(fixture("matrix_f32.npy"));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(error_of(whole.substr(0, size)), HasSubstr("gabbro_npy_test.npy: ")) << size;
  }
  EXPECT_THAT(error_of(whole + "x"), HasSubstr("25 bytes are not the 6 values"));
}

TEST(Npy, RefusesShapesThatAreNone) {
  const auto with_shape = [](const std::string& shape) {
    const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}\n";
    return error_of(std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header);
  };
  EXPECT_EQ(with_shape("(0,)"), "(no error)");
  for (const char* shape :
       {"", "(", "7", "(x)", "(-1,)", "(1;2)", "(99999999999999999999,)", "(4294967296, 4294967296)"}) {
    EXPECT_THAT(with_shape(shape), HasSubstr("the header holds no shape")) << shape;
  }
  EXPECT_THAT(with_shape("(4611686018427387904,)"), HasSubstr("0 bytes are not the 4611686018427387904 values"));
}

TEST(Npy, RefusesToWriteWhatItCannotReadBack) {
  const std::vector<float> values(6);
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {5}, {2, 4}, {-2, -3}}) {
    EXPECT_THROW(write_npy<float>(out_path(), values, shape), Error);
  }
  EXPECT_THROW(write_npy<float>("/nowhere/x.npy", values, std::vector<int64_t>{6}), Error);
}

}  // namespace
}  // namespace gabbro
