#include "src/formats/gguf/gguf_split.h"

#include "src/formats/gguf/gguf_test_support.h"
#include "src/formats/gguf/gguf_writer.h"

namespace gabbro::gguf {
namespace {

using testing::HasSubstr;

class Split : public testing::Test {
 protected:
  // One part of a model: what it says of itself, and its only tensor.
  void write(const std::string& name, int number, int count, int tensors, const std::string& tensor) {
    Writer writer;
    writer.add_integer("split.no", ValueType::u16, number);
    writer.add_integer("split.count", ValueType::u16, count);
    writer.add_integer("split.tensors.count", ValueType::i32, tensors);
    writer.add_tensor(tensor, 0, std::vector<int64_t>{1}, std::as_bytes(std::span(&value_, 1)));
    writer.write(folder_ / name);
  }
  std::string open_error(const std::string& name) {
    return error_of([&] { File::open(folder_ / name); });
  }

  float value_ = 1;
  TemporaryFolder folder_;
};

TEST_F(Split, OpensAllPartsWhicheverIsNamed) {
  for (const char* name : {"split-00001-of-00003.gguf", "split-00003-of-00003.gguf"}) {
    const File file = File::open(fixture(name));
    EXPECT_EQ(file.parts().size(), 3u);
    EXPECT_EQ(file.require_u32("test.block_count"), 5u);
    ASSERT_EQ(file.tensors().size(), 5u);
    for (int i = 0; i < 5; ++i) {
      const TensorInfo& tensor = file.require_tensor(fmt::format("t{}", i));
      EXPECT_EQ(tensor.file->path(), fixture(fmt::format("split-0000{}-of-00003.gguf", i / 2 + 1)));
      float value;
      std::memcpy(&value, tensor.data.data(), sizeof value);
      EXPECT_EQ(value, i);
    }
  }
}

TEST_F(Split, NamesThePartThatIsMissing) {
  write("m-00001-of-00002.gguf", 0, 2, 2, "a");
  EXPECT_EQ(open_error("m-00001-of-00002.gguf"),
            folder_ / "m-00002-of-00002.gguf" + ": No such file or directory (part 2 of 2)");
  EXPECT_EQ(open_error("none.gguf"), folder_ / "none.gguf" + ": No such file or directory");
}

TEST_F(Split, RefusesPartsThatDoNotBelongTogether) {
  write("m-00001-of-00002.gguf", 0, 2, 2, "a");
  write("m-00002-of-00002.gguf", 0, 2, 2, "b");
  EXPECT_EQ(open_error("m-00001-of-00002.gguf"), folder_ / "m-00002-of-00002.gguf" +
                                                     ": metadata 'split.no' is u16 0, but by the name of the file it "
                                                     "has to be 1");
  write("m-00002-of-00002.gguf", 1, 3, 2, "b");
  EXPECT_THAT(open_error("m-00001-of-00002.gguf"), HasSubstr("'split.count' is u16 3"));
  write("m-00002-of-00002.gguf", 1, 2, 2, "a");
  EXPECT_EQ(open_error("m-00001-of-00002.gguf"),
            folder_ / "m-00002-of-00002.gguf" + ": tensor 'a' is in " + folder_ / "m-00001-of-00002.gguf" + " too");
  write("m-00002-of-00002.gguf", 1, 2, 2, "b");
  EXPECT_EQ(open_error("m-00001-of-00002.gguf"), "(no error)");
  write("m-00001-of-00002.gguf", 0, 2, 3, "a");
  EXPECT_THAT(open_error("m-00002-of-00002.gguf"), HasSubstr("'split.tensors.count' is 3, but the 2 parts hold 2"));
}

TEST_F(Split, APartUnderAnotherNameIsNotAModel) {
  write("renamed.gguf", 0, 2, 2, "a");
  EXPECT_THAT(open_error("renamed.gguf"),
              HasSubstr("'split.count' is u16 2, but by the name of the file it has to be 1"));
  Writer whole;
  whole.add_u32("k", 1);
  whole.write(folder_ / "w-00001-of-00002.gguf");
  EXPECT_THAT(open_error("w-00001-of-00002.gguf"), HasSubstr("'split.count' is missing"));
  whole.write(folder_ / "w-00001-of-00001.gguf");
  EXPECT_EQ(open_error("w-00001-of-00001.gguf"), "(no error)");
}

TEST_F(Split, NamesOfParts) {
  const auto name = parse_split_name("/a/b-00002-of-00012.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->prefix, "/a/b");
  EXPECT_EQ(name->number, 1u);
  EXPECT_EQ(name->count, 12u);
  EXPECT_EQ(name->path(11), "/a/b-00012-of-00012.gguf");
  for (const char* other : {"", "b.gguf", "b-00000-of-00003.gguf", "b-00004-of-00003.gguf", "b-0000x-of-00003.gguf",
                            "b-00001-of-0000x.gguf", "b-00001-or-00003.gguf", "b-00001-of-00003.bin",
                            "b_00001-of-00003.gguf", "b-+0001-of-00003.gguf"}) {
    EXPECT_FALSE(parse_split_name(other)) << other;
  }
}

}  // namespace
}  // namespace gabbro::gguf
