#include "src/hub/repo_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

std::string read_back(std::string_view text) {
  const auto name = parse_repo_name(text);
  return name ? name->text() : "(none)";
}

TEST(RepoNames, AreTakenApart) {
  const auto name = parse_repo_name("own/m-GGUF@refs/pr/1:q4_k_m");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->id, "own/m-GGUF");
  EXPECT_EQ(name->revision, "refs/pr/1");
  EXPECT_EQ(name->tag, "q4_k_m");
  for (const std::string_view text : {"a/b", "a/b:q8_0", "a/b@v1.0", "A.b/c_d-e.f:x/y z+.gguf"})
    EXPECT_EQ(read_back(text), text);
  for (const std::string_view text :
       {"hf.co/a/b:q", "huggingface.co/a/b:q", "https://huggingface.co/a/b:q", "hf://a/b:q", "hf://models/a/b:q"})
    EXPECT_EQ(read_back(text), "a/b:q");
  EXPECT_EQ(read_back("https://huggingface.co/a/b/"), "a/b");
}

TEST(RepoNames, OtherTextsAreNone) {
  for (const std::string_view text : {"",         "a",
                                      "/",        "a/",
                                      "/b",       "a/b/c",
                                      "a/..",     "../b",
                                      "a/.b",     "a/b.",
                                      "a/-b",     "a--b/c",
                                      "a/b..c",   "a/b.git",
                                      "a/b.gguf", "a/b.SafeTensors",
                                      "a b/c",    "a/b:",
                                      "a/b:x:y",  "a/b://",
                                      "a/b:/x",   "a/b:x//y",
                                      "a/b:../x", "a/b@",
                                      "a/b@../x", "a/b@-x",
                                      "a/b@x//y", "a/\xC3\xA9",
                                      "a/b\n",    "https://other.host/a/b"})
    EXPECT_EQ(read_back(text), "(none)") << text;
  EXPECT_EQ(read_back("a/" + std::string(97, 'b')), "(none)");
}

TEST(RepoNames, HashesHaveLowerCaseDigits) {
  EXPECT_TRUE(is_commit(std::string(40, 'a')));
  EXPECT_TRUE(is_sha256(std::string(64, '9')));
  EXPECT_FALSE(is_commit(std::string(39, 'a')));
  EXPECT_FALSE(is_commit(std::string(40, 'A')));
  EXPECT_FALSE(is_sha256(std::string(64, '/')));
}

TEST(ShortNames, AreRepositories) {
  ASSERT_TRUE(find_short_name("qwen3:8b"));
  EXPECT_EQ(find_short_name("Qwen3:8B")->text(), "Qwen/Qwen3-8B-GGUF:q4_k_m");
  EXPECT_FALSE(find_short_name("qwen3:9b"));
  EXPECT_FALSE(find_short_name("#"));
  EXPECT_EQ(require_repo_name("a/b").id, "a/b");
  EXPECT_THROW(require_repo_name("qwen3:9b"), Error);
}

}  // namespace

extern const std::string_view kShortNames;

TEST(ShortNames, EveryLineOfTheTableIsOne) {
  int lines = 0;
  for (const std::string_view line : split(kShortNames, '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    const auto name = find_short_name(line.substr(0, line.find(' ')));
    ASSERT_TRUE(name) << line;
    EXPECT_TRUE(line.ends_with(" " + name->text())) << line;
    ++lines;
  }
  EXPECT_GT(lines, 20);
}

}  // namespace gabbro::hub
