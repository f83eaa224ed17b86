#include "src/hub/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/hub/repo_name.h"

namespace gabbro::hub {
namespace {

std::string error_of_page(std::string_view text) {
  std::vector<RepoFile> files;
  try {
    parse_tree_page(text, "list", files);
    check_tree(files, "list");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "(no error)";
}

const std::string kHash(40, '1');

TEST(Listings, HaveFilesWithTheirHashes) {
  const std::string sha256(64, 'a');
  std::vector<RepoFile> files;
  parse_tree_page(R"([{"type":"directory","path":"d","oid":"x"},
    {"type":"file","path":"d/m.gguf","size":134,"oid":")" +
                      kHash + R"(","lfs":{"oid":")" + sha256 +
                      R"(","size":5000000000,"pointerSize":134},"xetHash":"y"},
    {"type":"file","path":"a.json","size":2,"oid":")" +
                      kHash + R"("}])",
                  "list", files);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "d/m.gguf");
  EXPECT_EQ(files[0].size, 5000000000u);
  EXPECT_EQ(files[0].blob, sha256);
  EXPECT_TRUE(files[0].lfs);
  EXPECT_EQ(files[1].blob, kHash);
  EXPECT_EQ(files[1].size, 2u);
  EXPECT_FALSE(files[1].lfs);
}

TEST(Listings, HostileOnesAreRefusedInOneLine) {
  const auto file = [](const std::string& path, const std::string& size, const std::string& oid) {
    return R"([{"type":"file","path":")" + path + R"(","size":)" + size + R"(,"oid":")" + oid + "\"}]";
  };
  EXPECT_EQ(error_of_page(file("x", "1", kHash)), "(no error)");
  EXPECT_EQ(error_of_page(file("../x", "1", kHash)), "list: refused the path '../x'");
  EXPECT_EQ(error_of_page(file("x", "-1", kHash)), "list: file 'x': 'size' is not a number of bytes");
  EXPECT_EQ(error_of_page(file("x", "9000000000000000000", kHash)),
            "list: file 'x': a size of 9000000000000000000 bytes is out of range");
  EXPECT_EQ(error_of_page(file("x", "1", "../x")), "list: file 'x': '../x' is not a hash");
  EXPECT_EQ(error_of_page("{}"), "list: is not a list of files");
  EXPECT_EQ(error_of_page("[{}]"), "list: 'type' is not a text");
}

TEST(Listings, SafePathsStayInTheirFolder) {
  for (const std::string_view path : {"a", "a/b.c", "...", "a..b/-c", "~", "a b"})
    EXPECT_TRUE(is_safe_path(path)) << path;
  for (const std::string_view path : {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "./a", "a\\b", "a\tb", "a\x7f"})
    EXPECT_FALSE(is_safe_path(path)) << path;
  EXPECT_FALSE(is_safe_path(std::string(241, 'a')));
}

TEST(Listings, NextPagesAreInTheLinkHeader) {
  EXPECT_EQ(next_page(R"(<https://h/x?cursor=a>; rel="next")"), "https://h/x?cursor=a");
  EXPECT_EQ(next_page(R"(<https://h/1>; rel="prev", <https://h/2>; rel="next")"), "https://h/2");
  EXPECT_EQ(next_page(R"(<https://h/1>; rel="prev")"), "");
  EXPECT_EQ(next_page("<<<"), "");
  EXPECT_EQ(next_page(""), "");
}

TEST(Listings, CommitsAndManifests) {
  EXPECT_EQ(parse_commit(R"({"sha":")" + kHash + "\"}", "x"), kHash);
  EXPECT_THROW(parse_commit(R"({"sha":"main"})", "x"), Error);
  const std::string digest(64, 'b');
  const auto manifest = [&](const std::string& layers) {
    return parse_ollama_manifest(R"({"layers":[{"mediaType":"other"})" + layers + "]}", "x");
  };
  const auto layer = [&](const std::string& kind, const std::string& hash) {
    return R"(,{"mediaType":"application/vnd.ollama.image.)" + kind + R"(","digest":"sha256:)" + hash +
           R"(","size":7})";
  };
  const OllamaManifest found =
      manifest(layer("model", std::string(64, 'a')) + layer("system", digest) + layer("model", digest));
  ASSERT_EQ(found.layers.size(), 3u);
  EXPECT_EQ(found.layers[1].kind, "system");
  ASSERT_TRUE(found.model());
  EXPECT_EQ(found.model()->sha256, digest);
  EXPECT_EQ(found.model()->size, 7u);
  EXPECT_FALSE(manifest("").model());
  EXPECT_THROW(manifest(layer("adapter", "../x")), Error);
  EXPECT_THROW(parse_ollama_manifest("{}", "x"), Error);
}

}  // namespace
}  // namespace gabbro::hub
