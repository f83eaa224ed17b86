#include "src/backend/discovery/system_root.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "src/backend/discovery/fields.h"
#include "src/backend/discovery/test_tree.h"

namespace gabbro::discovery {
namespace {

using testing::ElementsAre;

TEST(Fields, NumbersAreWholeTexts) {
  EXPECT_EQ(parse_number("90010"), 90010U);
  EXPECT_EQ(parse_number("0x744c"), 0x744cU);
  EXPECT_EQ(parse_number("18446744073709551615"), UINT64_MAX);
  for (const char* wrong : {"", "0x", "-1", "+1", "1 ", "12a", "18446744073709551616"}) {
    EXPECT_FALSE(parse_number(wrong)) << wrong;
  }
}

TEST(Fields, LinesWithASeparator) {
  const Fields fields = parse_fields("simd_count 192\nUid:\t1000\n\nempty \nsimd_count 7\nnothing", ' ');
  EXPECT_EQ(number_field(fields, "simd_count"), 192U);  // the first counts
  EXPECT_EQ(text_field(fields, "empty"), "");
  EXPECT_EQ(number_field(fields, "absent"), 0U);
  EXPECT_EQ(text_field(parse_fields("GPU UUID: \t GPU-1c\r\n", ':'), "GPU UUID"), "GPU-1c");
  EXPECT_THAT(split(",0,,1,", ","), ElementsAre("0", "1"));
  EXPECT_TRUE(split("", ",").empty());
}

TEST(SystemRoot, ReadsWhatIsThereAndNothingElse) {
  TestTree tree;
  tree.write("a/text", "16.0 GT/s PCIe \n\n").write("a/number", "0x10\n").write("a/big", std::string(100000, 'x'));
  const SystemRoot root = tree.root();
  EXPECT_TRUE(root.recorded());
  EXPECT_EQ(root.read("/a/text"), "16.0 GT/s PCIe");
  EXPECT_EQ(root.read("/a/big")->size(), 65536U);
  EXPECT_EQ(root.read("/a/big", 10), "xxxxxxxxxx");
  EXPECT_EQ(root.read_number("/a/number"), 16U);
  EXPECT_FALSE(root.read_number("/a/text"));
  EXPECT_FALSE(root.read("/a"));
  EXPECT_FALSE(root.read("/absent"));
  EXPECT_TRUE(root.list("/absent").empty());
  EXPECT_THAT(root.list("/a"), ElementsAre("big", "number", "text"));
}

TEST(SystemRoot, PipesAndCyclesDoNotStopIt) {
  TestTree tree;
  tree.write("a/file", "1");
  ASSERT_EQ(::mkfifo(tree.path("a/pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("loop", tree.path("a/loop"));
  std::filesystem::create_symlink("../bus/drivers/amdgpu", tree.path("a/driver"));
  EXPECT_FALSE(tree.root().read("/a/pipe"));
  EXPECT_FALSE(tree.root().read("/a/loop"));
  EXPECT_FALSE(tree.root().exists("/a/loop"));
  EXPECT_EQ(tree.root().link_name("/a/driver"), "amdgpu");  // also where it leads nowhere
  EXPECT_EQ(tree.root().link_name("/a/file"), "");
}

}  // namespace
}  // namespace gabbro::discovery
