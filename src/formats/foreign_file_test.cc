#include "src/formats/foreign_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace gabbro {
namespace {

using testing::HasSubstr;

std::string recognized(std::string content, const std::string& path = "m.gguf") {
  const auto found = recognize_file(std::as_bytes(std::span(content)), path);
  return found ? found->what + " | " + found->hint : "";
}

TEST(ForeignFile, IsRecognizedByItsFirstBytes) {
  EXPECT_THAT(recognized("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4920734272\n"),
              testing::AllOf(HasSubstr("Git LFS pointer"), HasSubstr("git lfs pull"), HasSubstr("4920734272 bytes")));
  for (const char* page :
       {"<!DOCTYPE html><html>", "\n  <HTML><head>", "<?xml version=\"1.0\"?><Error>", "\xEF\xBB\xBF<html>"})
    EXPECT_THAT(recognized(page), HasSubstr("web page")) << page;
  EXPECT_THAT(recognized("{\"error\": \"Repository not found\"}"), HasSubstr("JSON"));
  using namespace std::string_literals;
  const std::pair<std::string, const char*> kArchives[] = {{"PK\x03\x04....model.gguf"s, "a zip archive"},
                                                           {"\x1F\x8B\x08\0\0"s, "gzip"},
                                                           {"\x28\xB5\x2F\xFD...."s, "Zstandard"},
                                                           {"7z\xBC\xAF\x27\x1C.."s, "7z"},
                                                           {"\xFD"
                                                            "7zXZ\0\0"s,
                                                            "xz"},
                                                           {"BZh91AY"s, "bzip2"},
                                                           {std::string(257, 'm') + "ustar\0"s, "tar"},
                                                           {"Rar!\x1A\x07\x01"s, "RAR"}};
  for (const auto& [bytes, name] : kArchives)
    EXPECT_THAT(recognized(bytes), testing::AllOf(HasSubstr(name), HasSubstr("unpack"))) << name;
  EXPECT_THAT(recognized("PK\x03\x04....archive/data.pkl"), HasSubstr("PyTorch"));
  EXPECT_THAT(recognized("PK\x03\x04....", "pytorch_model.bin"), HasSubstr("PyTorch"));
  EXPECT_THAT(recognized("\x80\x02}q\x01"), HasSubstr("pickle"));
  std::string safetensors(8, '\0');
  safetensors[0] = 12;
  EXPECT_THAT(recognized(safetensors + "{\"a\": \"bcd\"}"), HasSubstr("safetensors"));
  EXPECT_THAT(recognized("tjgg...."), HasSubstr("before GGUF"));
  EXPECT_THAT(recognized(std::string(4096, '\0')), HasSubstr("zeros"));
}

TEST(ForeignFile, LeavesTheRestToTheReader) {
  for (const char* content : {"GGUF\x03", "something else", "", "{{ x }}", "{% if x %}", "[INST] a", "{", "[", "\x80",
                              "PK", "<", "version 1"})
    EXPECT_EQ(recognized(content), "") << content;
  for (size_t size = 0; size < 300; ++size) recognized(std::string(size, '\x80'));  // no length reads beyond the end
}

TEST(ForeignFile, HintsOfUnfinishedDownloads) {
  EXPECT_THAT(unfinished_hint(6000, 11872), HasSubstr("6000 bytes of 11872"));
  EXPECT_THAT(unfinished_hint(7), HasSubstr("7 bytes so far"));
}

}  // namespace
}  // namespace gabbro
