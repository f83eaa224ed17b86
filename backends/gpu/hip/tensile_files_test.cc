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

// Files of packages: of AMD's rocBLAS 4.4 (ROCm 6.4) and 5.2 (7.2), with all targets in one folder; of 7.14, in a
// folder for each target; a machine has the installed ones.
TEST_F(TensileFiles, RecordedPackages) {
  for (const char* target :
       {"gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1151", "gfx1200", "gfx1201"}) {
    write(std::string("opt/rocm-6.4.3/lib/rocblas/library/TensileLibrary_lazy_") + target + ".dat");
    write(std::string("opt/rocm-7.2.4/lib/rocblas/library/TensileLibrary_lazy_") + target + ".dat");
  }
  write("opt/rocm-6.3.4/lib/rocblas/library/TensileLibrary_lazy_gfx906.dat");
  write("opt/rocm/core-7.14/lib/rocblas/library/gfx1201/TensileLibrary_lazy_gfx1201.dat");
  const char *v6_3 = "opt/rocm-6.3.4/lib/librocblas.so.4.3.60304", *v6_4 = "opt/rocm-6.4.3/lib/librocblas.so.4.4.60403",
             *v7_2 = "opt/rocm-7.2.4/lib/librocblas.so.5.2.70204", *v7_14 = "opt/rocm/core-7.14/lib/librocblas.so.5.4";
  EXPECT_TRUE(has(v6_3, "gfx906"));
  for (const char* library : {v6_4, v7_2, v7_14}) {
    EXPECT_FALSE(has(library, "gfx906")) << library;
    EXPECT_TRUE(has(library, "gfx1201")) << library;
  }
  EXPECT_TRUE(has(v7_2, "gfx1100"));
  EXPECT_FALSE(has(v7_14, "gfx1100"));
  EXPECT_EQ(missing_tensile_files(root_ / v7_14, "rocblas", nullptr, "gfx1201"), "");
  const std::string folder = root_ / "opt/rocm/core-7.14/lib/rocblas";
  EXPECT_EQ(missing_tensile_files(root_ / v7_14, "rocblas", nullptr, "gfx1100"),
            "no kernels for gfx1100 in " + folder + "/library, " + folder +
                "/5/library: install the package of rocblas with kernels for gfx1100");
  EXPECT_NE(missing_tensile_files(root_ / v7_2, "rocblas", nullptr, "gfx906").find("ROCm 6.3 has"), std::string::npos);
}

}  // namespace
}  // namespace gabbro::gpu::hip
