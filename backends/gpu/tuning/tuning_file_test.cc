#include "backends/gpu/tuning/tuning_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>

namespace gabbro::gpu {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TuningFiles : public testing::Test {
 protected:
  TuningFiles() : folder_(fs::path(testing::TempDir()) / "gabbro_tuning_file") { fs::create_directories(folder_); }
  ~TuningFiles() override { fs::remove_all(folder_); }

  std::string path(const char* name = "tuning.txt") const { return (folder_ / name).string(); }

  static void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static TuningTable load(const std::string& path, std::string& problem) { return TuningFile(path).load(problem); }

  static TuningTable table(const char* shape, const char* chosen = "few") {
    return {{{"gfx1100 Radeon, 96 units", shape},
             {.chosen = chosen, .candidates = {{"few", 1.5e-5}, {"tiled 128", 2e-5}, {"hip=BLAS", 3}}}}};
  }

  fs::path folder_;
};

TEST_F(TuningFiles, WhatWasStoredIsThereAgain) {
  const TuningFile file(path());
  EXPECT_EQ(file.store(table("linear 1")), "");
  EXPECT_EQ(file.store(table("linear 2", "hip=BLAS")), "");   // keeps the first
  EXPECT_EQ(file.store(table("linear 1", "tiled 128")), "");  // replaces it
  std::string problem;
  const TuningTable found = file.load(problem);
  EXPECT_EQ(problem, "");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found.begin()->first.second, "linear 1");
  EXPECT_EQ(found.begin()->second.chosen, "tiled 128");
  EXPECT_EQ(found.rbegin()->second.chosen, "hip=BLAS");
  EXPECT_EQ(found.rbegin()->second.candidates, table("").begin()->second.candidates);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "scratch files are left";
}

TEST_F(TuningFiles, AFolderThatIsNotThereIsMade) {
  EXPECT_EQ(TuningFile(path("new/folder/t")).store(table("linear")), "");
  std::string problem;
  EXPECT_EQ(load(path("new/folder/t"), problem).size(), 1U);
}

TEST_F(TuningFiles, NoFileIsNoProblem) {
  std::string problem = "old";
  EXPECT_TRUE(load(path("absent"), problem).empty());
  EXPECT_EQ(problem, "");
  EXPECT_TRUE(load("", problem).empty());
  EXPECT_EQ(problem, "");
  write(path("empty"), "");
  EXPECT_TRUE(load(path("empty"), problem).empty());
  EXPECT_EQ(problem, "");
}

TEST_F(TuningFiles, ADamagedFileIsIgnoredAndReplaced) {
  ASSERT_EQ(TuningFile(path()).store(table("linear")), "");
  const std::string good = read(path());
  std::string problem;
  for (const char* line : {"device", "device\tshape\tfew", "device\tshape\tfew\tfew=", "device\tshape\tfew\tfew=fast",
                           "device\tshape\tfew\tfew=nan", "device\tshape\tfew\tfew=inf", "device\tshape\tfew\tfew=-1",
                           "device\tshape\tfew\tfew=0", "device\tshape\tfew\t=1", "device\tshape\tother\tfew=1",
                           "\tshape\tfew\tfew=1", "device\t\tfew\tfew=1", "", "device\tshape\tfew\tfew=1x"}) {
    write(path(), good + line + "\n");
    EXPECT_TRUE(load(path(), problem).empty()) << line;
    EXPECT_EQ(problem, "the tuning file " + path() + " is ignored: line 3 is damaged") << line;
  }
  EXPECT_EQ(TuningFile(path()).store(table("linear")), "");
  EXPECT_EQ(read(path()), good);
}

// Cut off anywhere, or with any byte changed: what is read is a table or a problem, and nothing that was never stored.
TEST_F(TuningFiles, AnyDamageIsSurvived) {
  ASSERT_EQ(TuningFile(path()).store(table("linear 1")), "");
  ASSERT_EQ(TuningFile(path()).store(table("linear 2")), "");
  const std::string good = read(path());
  std::string problem;
  for (size_t length = 1; length < good.size(); ++length) {
    write(path(), good.substr(0, length));
    const size_t found = load(path(), problem).size();
    const bool at_line = good[length - 1] == '\n';
    EXPECT_EQ(problem.empty(), at_line) << length;
    EXPECT_EQ(found > 0, at_line && length > 20) << length;
  }
  std::mt19937 random(1);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] = static_cast<char>(random());
    write(path(), changed);
    const TuningTable found = load(path(), problem);
    EXPECT_TRUE(problem.empty() || found.empty());
    EXPECT_LE(found.size(), 3U);
  }
}

TEST_F(TuningFiles, WhatIsNotOursIsLeftAlone) {
  std::string problem;
  for (const std::string text : {"#!/bin/sh\nrm -rf\n", "gabbro tuning 2\n", "gabbro tuning 1", "\n"}) {
    write(path(), text);
    EXPECT_TRUE(load(path(), problem).empty());
    EXPECT_THAT(problem, HasSubstr("is ignored: it is not one that this version of Gabbro wrote"));
    EXPECT_EQ(TuningFile(path()).store(table("linear")), problem);
    EXPECT_EQ(read(path()), text);
  }
  EXPECT_TRUE(load(folder_.string(), problem).empty());
  EXPECT_THAT(problem, HasSubstr("it is not a plain file"));
  EXPECT_THAT(TuningFile(folder_.string()).store(table("linear")), HasSubstr("it is not a plain file"));
  EXPECT_TRUE(load("/dev/zero", problem).empty());
  EXPECT_THAT(problem, HasSubstr("it is not a plain file"));
}

TEST_F(TuningFiles, AFolderThatCannotBeWrittenIsSaid) {
  write(path("file"), "");
  const std::string inside = path("file/tuning.txt");
  EXPECT_THAT(TuningFile(inside).store(table("linear")), HasSubstr(inside));
  EXPECT_THAT(TuningFile("/proc/gabbro/tuning.txt").store(table("linear")),
              testing::StartsWith("the tuning file /proc/gabbro/tuning.txt cannot be written: "));
  EXPECT_THAT(TuningFile("/proc/tuning.txt").store(table("linear")), HasSubstr("cannot be written: "));
  EXPECT_THAT(TuningFile("").store(table("linear")), HasSubstr("GABBRO_TUNING_FILE"));
}

TEST_F(TuningFiles, NamesCannotBreakTheLines) {
  TuningTable odd;
  odd[{"a\tdevice\n", "shape\t1"}] = {.chosen = "a\nway", .candidates = {{"a\nway", 1}}};
  ASSERT_EQ(TuningFile(path()).store(odd), "");
  std::string problem;
  const TuningTable found = load(path(), problem);
  EXPECT_EQ(problem, "");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.begin()->first.first, "a device ");
}

TEST_F(TuningFiles, ThePlace) {
  const auto place = [](const char* own, const char* gabbro, const char* cache, const char* home) {
    std::map<std::string, std::optional<std::string>> before;
    const std::pair<const char*, const char*> values[] = {
        {"GABBRO_TUNING_FILE", own}, {"GABBRO_HOME", gabbro}, {"XDG_CACHE_HOME", cache}, {"HOME", home}};
    for (const auto& [name, value] : values) {
      if (const char* old = std::getenv(name)) before[name] = old;
      value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
    }
    const std::string found = TuningFile::default_path();
    for (const auto& [name, value] : values) {
      before.contains(name) ? ::setenv(name, before[name]->c_str(), 1) : ::unsetenv(name);
    }
    return found;
  };
  EXPECT_EQ(place("/a/t", "/b", "/c", "/d"), "/a/t");
  EXPECT_EQ(place("", "/b", "/c", "/d"), "");
  EXPECT_EQ(place(nullptr, "/b", "/c", "/d"), "/b/tuning.txt");
  EXPECT_EQ(place(nullptr, "", "/c", "/d"), "/c/gabbro/tuning.txt");
  EXPECT_EQ(place(nullptr, "", "c", "/d"), "/d/.cache/gabbro/tuning.txt");  // a relative path is ignored
  EXPECT_EQ(place(nullptr, nullptr, nullptr, "/d"), "/d/.cache/gabbro/tuning.txt");
  EXPECT_EQ(place(nullptr, nullptr, nullptr, nullptr), "");
}

}  // namespace
}  // namespace gabbro::gpu
