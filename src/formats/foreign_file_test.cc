#include "src/formats/foreign_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace gabbro {
namespace {

using testing::HasSubstr;

std::string recognized(std::string content, const std::string& path = "m.gguf", FileKind expected = FileKind::kGguf) {
  const auto found = recognize_file(std::as_bytes(std::span(content)), path, expected);
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

constexpr FileKind kOthers[] = {FileKind::kSafetensors, FileKind::kJson, FileKind::kSentencePiece, FileKind::kTemplate,
                                FileKind::kImportanceMatrix};

TEST(ForeignFile, IsRecognizedWhicheverFileWasExpected) {
  using namespace std::string_literals;
  const std::pair<std::string, const char*> kFiles[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 17\n"s, "Git LFS pointer"},
      {"<!DOCTYPE html><html>"s, "web page"},
      {"PK\x03\x04....archive/data.pkl"s, "PyTorch"},
      {"\x80\x02}q\x01"s, "pickle"},
      {"\x1F\x8B\x08\0\0"s, "gzip"},
      {std::string(257, 'm') + "ustar\0"s, "tar"},
      {"\x93NUMPY\x01"s, "NumPy"},
      {"tjgg...."s, "before GGUF"},
      {std::string(5000, '\0'), "zeros"}};
  for (const FileKind kind : kOthers) {
    for (const auto& [content, name] : kFiles) EXPECT_THAT(recognized(content, "a", kind), HasSubstr(name)) << name;
  }
  EXPECT_THAT(recognized("GGUF\x03", "model.safetensors", FileKind::kSafetensors), HasSubstr("ends in .gguf"));
  EXPECT_THAT(recognized("{\"error\": 1}", "m.safetensors", FileKind::kSafetensors), HasSubstr("JSON"));
  EXPECT_THAT(recognized("\x1F\x8B\x08", "tokenizer.json", FileKind::kJson), HasSubstr("belongs here"));
  EXPECT_THAT(recognized("PK\x03\x04....", "weights.npz"), HasSubstr("NumPy"));
  std::string safetensors(8, '\0');
  safetensors[0] = 100;
  EXPECT_THAT(recognized(safetensors + "{\"a\":", "model.safetensors.incomplete"), HasSubstr("unfinished"));
}

TEST(ForeignFile, TheExpectedKindIsLeftToItsReader) {
  using namespace std::string_literals;
  // The length of a header may look like a signature: 35615 is gzip's.
  EXPECT_EQ(recognized("\x1F\x8B\0\0\0\0\0\0{\"a\":"s, "m.safetensors", FileKind::kSafetensors), "");
  EXPECT_EQ(recognized("{\"a\": ", "config.json", FileKind::kJson), "");
  EXPECT_EQ(recognized("\x0A\x0E\x0A\x05<unk>\x15", "tokenizer.model", FileKind::kSentencePiece), "");
  EXPECT_EQ(recognized("<!-- a comment -->{{ messages }}", "chat_template.jinja", FileKind::kTemplate), "");
  EXPECT_EQ(recognized("{\"a\": 1}", "chat_template.jinja", FileKind::kTemplate), "");
  EXPECT_EQ(recognized("GGUF\x03", "i.gguf", FileKind::kImportanceMatrix), "");
  EXPECT_EQ(recognized("\x02\0\0\0\x05\0\0\0"s, "i.dat", FileKind::kImportanceMatrix), "");
}

TEST(ForeignFile, HintsOfUnfinishedDownloads) {
  EXPECT_THAT(unfinished_hint(6000, 11872), HasSubstr("6000 bytes of 11872"));
  EXPECT_THAT(unfinished_hint(7), HasSubstr("7 bytes so far"));
}

}  // namespace
}  // namespace gabbro
