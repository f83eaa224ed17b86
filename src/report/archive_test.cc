#include "src/report/archive.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "src/base/error.h"

namespace gabbro::report {
namespace {

std::vector<ReportFile> sample() {
  const std::string folder = "machine/tree/sys/bus/pci/devices/0000:03:00.0/" + std::string(60, 'a') + "/";
  return {{"manifest.json", "{}\n"},
          {"empty", ""},
          {folder + "b", std::string(513, 'x')},
          {"block", std::string(512, 'y')}};
}

TEST(Archive, IsReadAsItWasWritten) {
  const std::string path = testing::TempDir() + "gabbro_archive_" + std::to_string(::getpid());
  write_archive(path, {{"old", "old"}});
  write_archive(path, sample());
  const std::vector<ReportFile> files = read_archive(path);
  ASSERT_EQ(files.size(), sample().size());
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i].name, sample()[i].name);
    EXPECT_EQ(files[i].content, sample()[i].content);
  }
  for (const auto& entry : std::filesystem::directory_iterator(testing::TempDir())) {
    EXPECT_FALSE(entry.path().string().starts_with(path + ".")) << entry.path();  // no partial file is left
  }
  // The system's tar reads it, where its zstd is there too.
  if (std::system("tar --version >/dev/null 2>&1 && zstd --version >/dev/null 2>&1") == 0) {
    EXPECT_EQ(std::system(("tar --zstd -tf " + path + " | grep -qx block").c_str()), 0);
  }
  std::filesystem::remove(path);
}

TEST(Archive, DamageIsNamed) {
  const std::string good = pack_archive(sample());
  EXPECT_THROW(unpack_archive("text", "x"), Error);
  EXPECT_THROW(unpack_archive("", "x"), Error);
  EXPECT_THROW(unpack_archive(good.substr(0, good.size() - 5), "x"), Error);
  try {
    unpack_archive("no archive", "card.tar.zst");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_THAT(error.what(), testing::HasSubstr("card.tar.zst: not a zstd file"));
  }
}

TEST(Archive, AFolderThatIsMissingIsAnError) {
  EXPECT_THROW(write_archive("/no/such/folder/card.tar.zst", sample()), Error);
  EXPECT_THROW(pack_archive({{std::string(300, 'n'), ""}}), Error);
}

}  // namespace
}  // namespace gabbro::report
