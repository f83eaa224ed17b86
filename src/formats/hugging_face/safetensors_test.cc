// Safetensors: files of the reference implementation, files of ours, and files that are wrong.
#include "src/formats/hugging_face/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "src/base/error.h"

namespace gabbro::safetensors {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::span<const std::byte> as_span(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string file_of(const std::string& header, const std::string& data = "", int64_t longer = 0) {
  const uint64_t length = header.size() + static_cast<uint64_t>(longer);
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

std::string error_of(const std::string& file) {
  try {
    parse(as_span(file), "x.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_EQ(std::strchr(error.what(), '\n'), nullptr);
    EXPECT_THAT(error.what(), StartsWith("x.safetensors: "));
    return error.what();
  }
  return "(no error)";
}

std::string temporary(const std::string& name) { return (std::filesystem::path(testing::TempDir()) / name).string(); }

// Made by the reference implementation: tests/reference/make_nn_fixtures.py.
const char* const kFixture = GABBRO_SOURCE_DIR "/tests/data/nn/dtypes.safetensors";

TEST(Safetensors, ReadsWhatTheReferenceImplementationWrites) {
  const File file(kFixture);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"made by", "safetensors \"quoted\" ü"}}));
  ASSERT_EQ(file.tensors().size(), 12U);
  const TensorInfo& f32 = *file.tensor("f32");
  EXPECT_EQ(f32.dtype(), DType::f32);
  EXPECT_EQ(f32.shape, (std::vector<int64_t>{2, 3}));
  float values[6];
  ASSERT_EQ(f32.data.size(), sizeof values);
  std::memcpy(values, f32.data.data(), sizeof values);
  EXPECT_EQ(values[5], 5.0F);
  EXPECT_TRUE(file.tensor("scalar")->shape.empty());
  EXPECT_TRUE(file.tensor("empty")->data.empty());
  for (const DType dtype :
       {DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16, DType::i32, DType::i64, DType::boolean})
    EXPECT_EQ(file.tensor(dtype_name(dtype))->dtype(), dtype);
  EXPECT_EQ(file.tensor("none"), nullptr);
}

TEST(Safetensors, ReadsBackWhatItWrites) {
  const std::string path = temporary("back.safetensors");
  const int8_t bytes[] = {1, 2, 3};
  const double numbers[] = {0.5, -2};
  const std::vector<TensorData> tensors = {
      {.name = "a \"b\"", .dtype = DType::i8, .shape = {3}, .data = std::as_bytes(std::span(bytes))},
      {.name = "c", .dtype = DType::f64, .shape = {2, 1}, .data = std::as_bytes(std::span(numbers))},
      {.name = "d", .dtype = DType::f32, .shape = {0, 4}, .data = {}}};
  write(path, tensors, {{"k", "v"}});
  const File file(path);
  EXPECT_EQ(file.metadata().at("k"), "v");
  for (const TensorData& tensor : tensors) {
    const TensorInfo* read = file.tensor(tensor.name);
    ASSERT_NE(read, nullptr) << tensor.name;
    EXPECT_EQ(read->dtype(), tensor.dtype);
    EXPECT_EQ(read->shape, tensor.shape);
    EXPECT_TRUE(std::ranges::equal(read->data, tensor.data));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(read->data.data()) % dtype_bytes(tensor.dtype, 1), 0U);
  }
  std::filesystem::remove(path);
}

TEST(Safetensors, RefusesToWriteWhatTheFormatDoesNotHave) {
  const auto error = [](std::vector<TensorData> tensors) -> std::string {
    try {
      write(temporary("never.safetensors"), tensors);
    } catch (const Error& e) {
      return e.what();
    }
    return "(no error)";
  };
  EXPECT_THAT(error({{.name = "a", .dtype = DType::q8_0, .shape = {32}}}), HasSubstr("the format has no q8_0"));
  EXPECT_THAT(error({{.name = "a", .shape = {2}}}), HasSubstr("0 bytes for F32 (2)"));
  EXPECT_THAT(error({{.name = "a", .shape = {0}}, {.name = "a", .shape = {0}}}), HasSubstr("'a': the name is taken"));
  EXPECT_THAT(error({{.name = "__metadata__", .shape = {0}}}), HasSubstr("the name is taken"));
  EXPECT_THAT(error({{.name = "\xff", .shape = {0}}}), HasSubstr("not UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(temporary("never.safetensors")));
}

TEST(SafetensorsHostile, EachFaultHasItsLine) {
  const std::string entry = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const std::pair<std::string, const char*> faults[] = {
      {"", "header length: the file ends at byte 0"},
      {"1234567", "header length: the file ends at byte 7"},
      {file_of("{}", "", 1), "header length: 3 bytes at byte 0, and the file ends at byte 10"},
      {file_of("", "", int64_t{1} << 62), "are more than 100000000"},
      {file_of(""), "the header is not JSON at byte 8"},
      {file_of(" {}"), "the header is not JSON at byte 8"},
      {file_of("{\"a\":}"), "the header is not JSON at byte 13"},
      {file_of("{} {}"), "the header is not JSON at byte 11"},
      {file_of("{\"a\":1}"), "tensor 'a': is a number, not an object"},
      {file_of("{\"a\":[]}"), "tensor 'a': is an array, not an object"},
      {file_of("{\"a\":{}}"), "tensor 'a': has no dtype"},
      {file_of(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "1234"), "tensor 'a': has no shape"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1]}})", "1234"), "tensor 'a': has no data_offsets"},
      {file_of(R"({"a":{"dtype":1}})"), "tensor 'a': dtype has a number"},
      {file_of(R"({"a":{"dtype":"F32","dtype":"F32"}})"), "field 'dtype' is there twice"},
      {file_of(R"({"a":{"other":1}})"), "field 'other' is not known"},
      {file_of(R"({"a":{"shape":[-1]}})"), "shape has a negative number"},
      {file_of(R"({"a":{"shape":[1.5]}})"), "shape has a fraction"},
      {file_of(R"({"a":{"shape":[[1]]}})"), "shape has an array"},
      {file_of(R"({"a":{"shape":{"b":1}}})"), "shape has an object"},
      {file_of(R"({"a":{"data_offsets":[1]}})"), "data_offsets has 1 numbers"},
      {file_of("{\"a\":{" + entry + "},\"a\":{" + entry + "}}", "1234"), "tensor 'a': is there twice"},
      {file_of(R"({"__metadata__":{"a":1}})"), "metadata 'a': is a number, not a text"},
      {file_of(R"({"__metadata__":{"a":"1","a":"2"}})"), "metadata 'a': is there twice"},
      {file_of(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "1234"), "dtype 'F33' is not known"},
      {file_of(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", "1"), "shape (1) is too large"},
      {file_of(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"), "is too large"},
      {file_of(R"({"a":{"dtype":"U8","shape":[0,18446744073709551615],"data_offsets":[0,0]}})"), "is too large"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"), "4 bytes, and F32 (2) takes 8"},
      {file_of("{\"a\":{" + entry + "}}", "123"), "its data end at byte 4, of 3 that there are"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234"),
       "begin at byte 4 of the data, and what is before ends at 0"},
      {file_of("{\"a\":{" + entry + "},\"b\":{" + entry + "}}", "12345678"),
       "'b': its data begin at byte 0 of the data, and what is before ends at 4"},
      {file_of("{\"a\":{" + entry + "}}", "12345"), "1 bytes from byte"},
  };
  for (const auto& [file, message] : faults) EXPECT_THAT(error_of(file), HasSubstr(message)) << file;
}

TEST(SafetensorsHostile, EveryPrefixAndEveryFlippedByteIsRefusedOrRead) {
  const std::string whole = read_file(kFixture);
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(error_of(whole.substr(0, size)), "(no error)") << size;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x11);
    error_of(damaged);
  }
}

}  // namespace
}  // namespace gabbro::safetensors
