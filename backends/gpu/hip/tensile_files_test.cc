// Whether rocBLAS and hipBLASLt, as they are installed, have kernels for a device.
#include "backends/gpu/hip/tensile_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace gabbro::gpu::hip {
namespace {

namespace fs = std::filesystem;

class TensileFiles : public testing::Test {
 protected:
  TensileFiles() : root_(fs::path(testing::TempDir()) / "gabbro_tensile_files") { fs::remove_all(root_); }
  ~TensileFiles() override { fs::remove_all(root_); }

  void write(const std::string& file) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << "x";
  }
  bool has(const char* library, const char* target, const char* chosen = nullptr) const {
    const std::string folder = chosen == nullptr ? "" : root_ / chosen;
    return has_tensile_files(tensile_folders(root_ / library, "rocblas", folder.c_str()), target);
  }

  fs::path root_;
};

TEST_F(TensileFiles, NothingWithoutFiles) {
  EXPECT_FALSE(has("lib/librocblas.so.5.2", "gfx1100"));
  EXPECT_FALSE(has_tensile_files(tensile_folders({}, "rocblas", nullptr), "gfx1100"));
}

TEST_F(TensileFiles, OfThisTargetAlone) {
  write("lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat");
  write("lib/rocblas/library/TensileLibrary_Type_HS_HPA_Contraction_l_Alik_Bljk_Cijk_Dijk_fallback_gfx1103.hsaco");
  EXPECT_TRUE(has("lib/librocblas.so.5.2.70204", "gfx1100"));
  EXPECT_FALSE(has("lib/librocblas.so.5.2.70204", "gfx1103"));
  EXPECT_FALSE(has("lib/librocblas.so.5.2.70204", "gfx110"));
  EXPECT_FALSE(has("other/librocblas.so.5.2.70204", "gfx1100"));
}

TEST_F(TensileFiles, OfEachArrangement) {
  write("lib/rocblas/library/TensileLibrary_gfx906.yaml");
  write("lib/rocblas/library/gfx942/TensileLibrary_lazy_gfx942.dat");
  EXPECT_TRUE(has("lib/librocblas.so.5.2", "gfx906"));
  EXPECT_TRUE(has("lib/librocblas.so.5.2", "gfx942"));
}

// Debian installs several versions side by side.
TEST_F(TensileFiles, OfThisVersionAlone) {
  write("lib/rocblas/4/library/TensileLibrary_lazy_gfx803.dat");
  write("lib/rocblas/5/library/TensileLibrary_lazy_gfx1100.dat");
  EXPECT_TRUE(has("lib/librocblas.so.5.2", "gfx1100"));
  EXPECT_FALSE(has("lib/librocblas.so.5.2", "gfx803"));
  EXPECT_TRUE(has("lib/librocblas.so.4.4", "gfx803"));
}

TEST_F(TensileFiles, ChosenFolderReplacesTheOthers) {
  write("lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat");
  write("mine/TensileLibrary_lazy_gfx1036.dat");
  EXPECT_TRUE(has("lib/librocblas.so.5.2", "gfx1036", "mine"));
  EXPECT_FALSE(has("lib/librocblas.so.5.2", "gfx1100", "mine"));
}

}  // namespace
}  // namespace gabbro::gpu::hip
