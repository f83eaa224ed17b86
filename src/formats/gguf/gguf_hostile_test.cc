// Files that are wrong: each gives one line that names the file, the field and the byte; none crashes.
#include <fstream>

#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/gguf/gguf_test_support.h"

namespace gabbro::gguf {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kHuge = uint64_t{1} << 62;

TEST(GgufHostile, EveryPrefixIsRefused) {
  for (const char* name : {"all_types.gguf", "vocabulary.gguf"}) {
    const std::string whole = read_file(fixture(name));
    const Part part = parse(as_span(whole), name);
    // The padding that ends a file without tensors may be missing.
    const std::byte* end = part.tensors.empty() ? part.fields.back().value.data() + part.fields.back().value.bytes()
                                                : part.tensors.back().data.data() + part.tensors.back().data.size();
    const auto used = static_cast<size_t>(end - as_span(whole).data());
    for (size_t size = 0; size < used; ++size) {
      const std::string prefix = whole.substr(0, size);
      EXPECT_THAT(error_of([&] { parse(as_span(prefix), "x.gguf"); }), StartsWith("x.gguf: ")) << size;
    }
    EXPECT_NO_THROW(parse(as_span(whole).first(used), name));
  }
}

TEST(GgufHostile, EveryFlippedByteIsRefusedOrRead) {
  const std::string whole = read_file(fixture("all_types.gguf"));
  int refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int mask : {0x01, 0x02, 0x10, 0x80, 0xff}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const std::string error = error_of([&] { touch_everything(parse(as_span(damaged), "x.gguf")); });
      if (error == "(no error)") continue;
      ++refused;
      EXPECT_THAT(error, StartsWith("x.gguf: "));
      EXPECT_THAT(error, HasSubstr(" at byte "));
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(GgufHostile, Header) {
  EXPECT_EQ(parse_error(Bytes().raw("GG\nF").put<uint32_t>(3)),
            "x.gguf: magic at byte 0: this is not a GGUF file, it starts with 'GG?F'");
  EXPECT_EQ(parse_error(Bytes().raw("GGUF").put<uint16_t>(3)),
            "x.gguf: version at byte 4: the file ends too early, after 6 bytes");
  EXPECT_EQ(parse_error(Bytes().header(0, 0, 1)),
            "x.gguf: version at byte 4: version 1 is not supported, only 2 and 3 are");
  EXPECT_THAT(parse_error(Bytes().header(0, 0, 0)), HasSubstr("version 0 is not supported"));
  EXPECT_THAT(parse_error(Bytes().header(0, 0, 0x03000000)), HasSubstr("big-endian files are not supported"));
  EXPECT_EQ(parse_error(Bytes().header(kHuge, 0)),
            "x.gguf: number of tensors at byte 8: 4611686018427387904 are more than the 8 bytes left can hold");
  EXPECT_EQ(parse_error(Bytes().header(0, 1)),
            "x.gguf: number of metadata fields at byte 16: 1 are more than the 0 bytes left can hold");
}

TEST(GgufHostile, BigEndianFileOfGgufPy) {
  EXPECT_THAT(error_of([] { File::open(fixture("big_endian.gguf")); }),
              HasSubstr("big-endian files are not supported"));
}

TEST(GgufHostile, Metadata) {
  const auto one = [] { return Bytes().header(0, 1); };
  EXPECT_EQ(parse_error(one().put<uint64_t>(99).raw("key").data(0)),
            "x.gguf: metadata 0: key at byte 24: its length 99 is more than the 32 bytes left");
  EXPECT_THAT(parse_error(one().put<uint64_t>(~uint64_t{0}).data(8)), HasSubstr("18446744073709551615 is more than"));
  EXPECT_THAT(parse_error(one().string("").data(32)), HasSubstr("metadata 0: key at byte 24: it is empty"));
  EXPECT_THAT(parse_error(one().string(std::string(65536, 'k')).data(32)), HasSubstr("too long for a name"));
  EXPECT_EQ(parse_error(one().string("k").put<uint32_t>(13).data(8)),
            "x.gguf: metadata 'k': type at byte 33: 13 is not a type of metadata");
  EXPECT_EQ(parse_error(one().field("k", ValueType::boolean).put<uint8_t>(2)),
            "x.gguf: metadata 'k': value at byte 37: 2 is not a bool");
  EXPECT_THAT(parse_error(one().field("k", ValueType::string).put(kHuge)), HasSubstr("metadata 'k': value at byte 37"));
  Bytes twice;
  twice.header(0, 2).field("k", ValueType::u8).put<uint8_t>(0).field("k", ValueType::u8).put<uint8_t>(0);
  EXPECT_EQ(parse_error(twice), "x.gguf: metadata 'k': key at byte 38: it is there twice");
}

TEST(GgufHostile, KeysDoNotForgeMessages) {
  Bytes file;
  file.header(0, 1).string("a\n\033[2J" + std::string(100, 'k')).put<uint32_t>(99).put<uint64_t>(0);
  EXPECT_THAT(parse_error(file), StartsWith("x.gguf: metadata 'a??[2J" + std::string(74, 'k') + "...': type"));
}

TEST(GgufHostile, Arrays) {
  const auto array = [](ValueType element, uint64_t count) {
    return Bytes().header(0, 1).field("k", ValueType::array).put(element).put(count);
  };
  EXPECT_EQ(
      parse_error(array(ValueType::f64, kHuge)),
      "x.gguf: metadata 'k': array length at byte 41: 4611686018427387904 are more than the 0 bytes left can hold");
  EXPECT_THAT(parse_error(array(ValueType::u8, 3).raw("ab")), HasSubstr("3 are more than the 2 bytes"));
  EXPECT_THAT(parse_error(array(ValueType::string, 2).string("")), HasSubstr("2 are more than the 8 bytes"));
  EXPECT_THAT(parse_error(array(ValueType::string, 1).put<uint64_t>(1)), HasSubstr("its length 1 is more than"));
  EXPECT_THAT(parse_error(array(static_cast<ValueType>(77), 0)),
              HasSubstr("element type at byte 37: 77 is not a type"));
  EXPECT_THAT(parse_error(array(ValueType::boolean, 3).raw({"\0\1\3", 3})), HasSubstr("at byte 51: 3 is not a bool"));
  EXPECT_EQ(parse_error(array(ValueType::u64, 0)), "(no error)");
}

TEST(GgufHostile, NestingIsBounded) {
  const auto nested = [](int depth) {
    Bytes file;
    file.header(0, 1).field("k", ValueType::array);
    for (int i = 1; i < depth; ++i) file.put(ValueType::array).put<uint64_t>(1);
    return file.put(ValueType::u8).put<uint64_t>(1).put<uint8_t>(7);
  };
  EXPECT_EQ(parse_error(nested(4)), "(no error)");
  EXPECT_THAT(parse_error(nested(5)), HasSubstr("nested more than 4 deep"));
  EXPECT_THAT(parse_error(nested(100000)), HasSubstr("nested more than 4 deep"));
}

TEST(GgufHostile, Alignment) {
  const auto with = [](auto value, ValueType type) {
    return parse_error(Bytes().header(0, 1).field("general.alignment", type).put(value));
  };
  EXPECT_EQ(with(uint32_t{8}, ValueType::u32), "(no error)");
  EXPECT_EQ(with(uint32_t{1} << 31, ValueType::u32), "(no error)");
  EXPECT_EQ(with(uint32_t{24}, ValueType::u32), "x.gguf: general.alignment at byte 53: u32 24 is not a power of two");
  EXPECT_THAT(with(uint32_t{0}, ValueType::u32), HasSubstr("u32 0 is not a power"));
  EXPECT_EQ(with(uint32_t{4}, ValueType::u32), "(no error)");  // llama.cpp takes it; data have to be aligned by 8
  EXPECT_THAT(with(1.0f, ValueType::f32), HasSubstr("f32 is not a power"));
}

TEST(GgufHostile, Tensors) {
  const auto one = [](const std::vector<int64_t>& dimensions, uint32_t type, uint64_t offset) {
    return parse_error(Bytes().header(1, 0).tensor("t", dimensions, type, offset).data(64));
  };
  EXPECT_EQ(one({16}, 0, 0), "(no error)");
  EXPECT_EQ(one({}, 0, 32), "(no error)");
  EXPECT_EQ(one({1, 1, 1, 1, 1}, 0, 0), "x.gguf: tensor 't': number of dimensions at byte 33: 5 are more than 4");
  EXPECT_EQ(one({4, 0}, 0, 0), "x.gguf: tensor 't': dimension at byte 45: 0 is not a size");
  EXPECT_THAT(one({-4}, 0, 0), HasSubstr("dimension at byte 37: 18446744073709551612 is not a size"));
  EXPECT_THAT(one({1 << 22, 1 << 22, 1 << 22}, 0, 0), HasSubstr("more elements than can be counted"));
  EXPECT_THAT(one({int64_t{1} << 62}, 0, 0), HasSubstr("more than the file's 128 bytes can hold"));
  EXPECT_THAT(one({int64_t{1} << 62}, 30, 0), HasSubstr("more than the file's 128 bytes can hold"));
  EXPECT_EQ(one({16}, 4, 0), "x.gguf: tensor 't': type at byte 45: ggml type 4 is not known");
  EXPECT_THAT(one({16}, 0xffffffff, 0), HasSubstr("ggml type 4294967295 is not known"));
  EXPECT_EQ(one({16, 2}, 2, 0),
            "x.gguf: tensor 't': type at byte 53: rows of 16 are not a number of Q4_0 blocks of 32 elements");
  EXPECT_THAT(one({}, 12, 0), HasSubstr("rows of 1 are not a number of Q4_K blocks"));
  EXPECT_EQ(one({8}, 0, 8), "x.gguf: tensor 't': offset at byte 49: 8 is not a multiple of 32");
  EXPECT_EQ(one({16}, 0, 32),
            "x.gguf: tensor 't': offset at byte 49: 64 bytes at 32 of the data are outside the file of 128 bytes");
  EXPECT_THAT(one({1}, 0, 96), HasSubstr("outside the file"));
  EXPECT_THAT(one({1}, 0, ~uint64_t{31}), HasSubstr("outside the file"));
  EXPECT_THAT(parse_error(Bytes().header(1, 0).string("").data(64)),
              HasSubstr("tensor 0: name at byte 24: it is empty"));
}

TEST(GgufHostile, DataBehindTheEndOfAnAlignedHeader) {
  Bytes file;  // the header ends inside the padding that the alignment asks for
  file.header(1, 1).field("general.alignment", ValueType::u32).put(uint32_t{1} << 30).tensor("t", {1}, 0, 0).data(64);
  EXPECT_THAT(parse_error(file), HasSubstr("outside the file"));
}

TEST(GgufHostile, TensorsOfOneNameOrPlace) {
  const auto two = [](std::string_view name, uint64_t offset) {
    return parse_error(
        Bytes().header(2, 0).tensor("a", {12}, 0, offset).tensor(name, {12}, 0, offset == 32 ? 0 : 32).data(128));
  };
  EXPECT_EQ(two("a", 64), "x.gguf: tensor 'a': name at byte 57: it is there twice");
  EXPECT_EQ(two("b", 0), "x.gguf: tensor 'b': offset at byte 82: its data at 32 overlap the data of 'a'");
  EXPECT_EQ(two("b", 32), "x.gguf: tensor 'a': offset at byte 49: its data at 32 overlap the data of 'b'");
  EXPECT_THAT(parse_error(Bytes().header(2, 0).tensor("a", {9}, 0, 0).tensor("b", {8}, 0, 0).data(64)),
              HasSubstr("overlap"));
}

}  // namespace
}  // namespace gabbro::gguf
