// Choice of a device's code object, and the cache of compiled kernels.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "backends/gpu/code_cache.h"
#include "backends/gpu/hip/code_target.h"

namespace gabbro::gpu::hip {
namespace {

TEST(CodeTarget, GenericTargets) {
  EXPECT_EQ(generic_target("gfx906"), "gfx9-generic");
  EXPECT_EQ(generic_target("gfx942"), "gfx9-4-generic");
  EXPECT_EQ(generic_target("gfx950"), "gfx9-4-generic");
  EXPECT_EQ(generic_target("gfx1010"), "gfx10-1-generic");
  EXPECT_EQ(generic_target("gfx1036"), "gfx10-3-generic");
  EXPECT_EQ(generic_target("gfx1103"), "gfx11-generic");
  EXPECT_EQ(generic_target("gfx1153"), "gfx11-generic");
  EXPECT_EQ(generic_target("gfx1201"), "gfx12-generic");
  for (const char* target : {"gfx908", "gfx90a", "gfx1250", "gfx11", "gfx", ""}) EXPECT_EQ(generic_target(target), "");
}

TEST(CodeTarget, Rdna) {
  for (const char* target : {"gfx1010", "gfx1030", "gfx1100", "gfx1151", "gfx1201"}) EXPECT_TRUE(is_rdna(target));
  for (const char* target : {"gfx906", "gfx90a", "gfx942", "gfx950", ""}) EXPECT_FALSE(is_rdna(target));
}

TEST(CodeTarget, ExactThenGenericThenCompiled) {
  const auto described = [](std::string_view architecture, std::initializer_list<std::string_view> built) {
    const CodeChoice choice = choose_code(architecture, {built.begin(), built.size()});
    return choice.target + ": " + description_of(choice);
  };
  EXPECT_EQ(described("gfx1100", {"gfx11-generic", "gfx1100"}), "gfx1100: native kernels");
  EXPECT_EQ(described("gfx1100", {"gfx1101", "gfx11-generic"}), "gfx11-generic: gfx11-generic kernels");
  EXPECT_EQ(described("gfx1100", {"gfx1101", "gfx12-generic"}), "gfx1100: kernels compiled on first use");
  EXPECT_EQ(described("gfx90a:sramecc+:xnack-", {"gfx90a"}), "gfx90a: native kernels");
  EXPECT_EQ(described("gfx90a:sramecc+:xnack-", {"gfx9-generic"}), "gfx90a: kernels compiled on first use");
  EXPECT_EQ(described("gfx1100", {}), "gfx1100: kernels compiled on first use");
}

class Cache : public testing::Test {
 protected:
  Cache() : home_(std::filesystem::path(testing::TempDir()) / "gabbro_code_cache") {
    std::filesystem::remove_all(home_);
    ::setenv("GABBRO_HOME", home_.c_str(), 1);
  }
  ~Cache() override {
    ::unsetenv("GABBRO_HOME");
    std::filesystem::remove_all(home_);
  }

  static CodeCache cache(std::string_view architecture = "gfx1100", std::string_view compiler = "hip70200000",
                         const char* text = "a") {
    const std::array sources = {EmbeddedFile{"kernels/rows/rms_norm.cc", text, 1}};
    return {architecture, compiler, sources};
  }
  static std::string loaded(const CodeCache& cache, const std::string& name = "norm") {
    const auto code = cache.load(name);
    return code ? std::string(code->begin(), code->end()) : "nothing";
  }

  std::filesystem::path home_;
  const std::string code_ = "code of a kernel";
};

TEST_F(Cache, ReturnsWhatWasStoredUnderTheSameKey) {
  EXPECT_EQ(loaded(cache()), "nothing");
  ASSERT_TRUE(cache().store("norm", code_));
  EXPECT_EQ(loaded(cache()), code_);
  EXPECT_EQ(loaded(cache(), "cast"), "nothing");
  EXPECT_EQ(loaded(cache("gfx1101")), "nothing");
  EXPECT_EQ(loaded(cache("gfx1100", "hip70200001")), "nothing");
  EXPECT_EQ(loaded(cache("gfx1100", "hip70200000", "b")), "nothing") << "the source is another";
  EXPECT_NE(cache("gfx90a:sramecc+:xnack-").folder(), cache("gfx90a:sramecc-:xnack-").folder());
  EXPECT_TRUE(cache().folder().starts_with(home_.string() + "/kernels/gfx1100-hip70200000-"));
}

TEST_F(Cache, DamagedFilesAreAsGoodAsNone) {
  const std::string path = cache().folder() + "/norm.hsaco";
  for (const size_t bytes : {size_t{0}, size_t{8}, code_.size()}) {
    ASSERT_TRUE(cache().store("norm", code_));
    std::filesystem::resize_file(path, bytes);
    EXPECT_EQ(loaded(cache()), "nothing") << bytes;
  }
  ASSERT_TRUE(cache().store("norm", code_));
  std::fstream(path, std::ios::in | std::ios::out).put('C');
  EXPECT_EQ(loaded(cache()), "nothing");
}

TEST_F(Cache, AFolderThatCannotBeWritten) {
  std::ofstream(home_.string()) << "a file where a folder should be";
  EXPECT_FALSE(cache().store("norm", code_));
  EXPECT_EQ(loaded(cache()), "nothing");
}

TEST_F(Cache, NoHome) {
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  ::unsetenv("GABBRO_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(cache().folder(), "");
  EXPECT_FALSE(cache().store("norm", code_));
  EXPECT_EQ(loaded(cache()), "nothing");
  ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace gabbro::gpu::hip
