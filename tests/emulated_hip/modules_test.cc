#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/emulated_hip/device_calls.h"
#include "tests/emulated_hip/test_kernels.h"

namespace emulated_hip {
namespace {

constexpr const char* kSource = "tests/emulated_hip/test_kernels.cc";

hipError_t load(const std::string& image) {
  hipModule_t module = nullptr;
  return hipModuleLoadData(&module, image.data());
}

TEST(Images, AreElfFilesForTheTargetsMachine) {
  const std::string image = make_image("gfx90a", kSource);
  Elf64_Ehdr header{};
  std::memcpy(&header, image.data(), sizeof header);
  EXPECT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
  EXPECT_EQ(header.e_machine, 224);
  EXPECT_EQ(header.e_flags & 0xff, 0x3fU);
}

TEST(Images, RunOnTheirTargetAndOnMembersOfAGenericOne) {
  expect_passes(card("gfx1101"), [] {
    succeed(load(make_image("gfx1101", kSource)));
    succeed(load(make_image("gfx11-generic", kSource)));
    EXPECT_EQ(load(make_image("gfx1100", kSource)), hipErrorNoBinaryForGpu);
    EXPECT_EQ(load(make_image("gfx12-generic", kSource)), hipErrorNoBinaryForGpu);
    EXPECT_EQ(load("no code at all, and longer than the beginning of a bundle"), hipErrorInvalidImage);
  });
}

TEST(Images, OfABundleTheDevicesIsTaken) {
  expect_passes(card("gfx1201"), [] {
    const std::string exact = make_image("gfx1201", kSource), generic = make_image("gfx12-generic", kSource);
    succeed(load(make_bundle({{"gfx1100", make_image("gfx1100", kSource)}, {"gfx1201", exact}})));
    succeed(load(make_bundle({{"gfx12-generic", generic}})));
    EXPECT_EQ(load(make_bundle({{"gfx1100", make_image("gfx1100", kSource)}})), hipErrorNoBinaryForGpu);
  });
}

// An ELF file without the note that names a source: machine code, which the emulator of instructions would run.
TEST(Images, OfRealDeviceCodeNeedTheInstructionEmulator) {
  std::string image = make_image("gfx1100", kSource);
  image.replace(image.find("Gabbro"), 6, "AMDGPU");
  const Image found = find_image(image.data(), "gfx1100", 3);
  EXPECT_EQ(found.problem, ImageProblem::kNone);
  EXPECT_EQ(found.source, "");
  EXPECT_EQ(found.code.data(), image.data());
  EXPECT_EQ(find_image(image.data(), "gfx1201", 3).problem, ImageProblem::kNoTarget);
  const std::string packed = compress_bundle(make_bundle({{"gfx1100", image}}), 2);
  const Image unpacked = find_image(packed.data(), "gfx1100", 2);
  EXPECT_EQ(unpacked.code, found.code);
  const Outcome outcome = run_in_process(with(card("gfx1100"), "EMULATED_GPU_LOG", "1"),
                                         [&] { EXPECT_EQ(load(image), hipErrorInvalidImage); });
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.errors.find("needs EMULATED_GPU_INSTRUCTIONS"), std::string::npos) << outcome.errors;
}

// The format that LLVM writes since August 2025.
TEST(Images, BundlesOfFormat3AreUnknownToRelease64) {
  for (const char* version : {"6.4", "7.2", "7.14", "10.0"}) {
    const bool knows = std::string(version) != "6.4";
    expect_passes(card("gfx1100", version), [knows] {
      const std::string bundle = make_bundle({{"gfx1100", make_image("gfx1100", kSource)}});
      succeed(load(compress_bundle(bundle, 2)));
      EXPECT_EQ(load(compress_bundle(bundle, 3)), knows ? hipSuccess : hipErrorInvalidImage);
    });
  }
}

TEST(Modules, KnowOnlyTheKernelsOfTheirSource) {
  expect_passes(card("gfx1100"), [] {
    hipModule_t module = nullptr;
    hipFunction_t function = nullptr;
    const std::string image = make_image("gfx1100", kSource);
    succeed(hipModuleLoadData(&module, image.data()));
    succeed(hipModuleGetFunction(&function, module, "test_add"));
    EXPECT_EQ(hipModuleGetFunction(&function, module, "test_write"), hipErrorNotFound);
    int threads = 0;
    succeed(hipFuncGetAttribute(&threads, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    EXPECT_EQ(threads, 64);
    succeed(hipModuleUnload(module));
  });
}

TEST(Launches, AreLimited) {
  expect_passes(card("gfx1100"), [] {
    const hipFunction_t add = kernel("test_add"), large = kernel("test_large");
    gabbro::gpu::AddArgs args{nullptr, 1};
    void* params[] = {&args};
    const auto launch_grid = [&](unsigned x, unsigned y, unsigned threads) {
      return hipModuleLaunchKernel(add, x, y, 1, threads, 1, 1, 0, nullptr, params, nullptr);
    };
    EXPECT_EQ(launch_grid(1U << 26, 1, 64), hipErrorInvalidConfiguration);  // 2^32 threads along x
    EXPECT_EQ(launch_grid(1, 65536, 64), hipErrorInvalidConfiguration);
    EXPECT_EQ(launch_grid(0, 1, 64), hipErrorInvalidConfiguration);
    EXPECT_EQ(launch_grid(1, 1, 128), hipErrorInvalidValue);
    EXPECT_EQ(launch(large, nullptr, gabbro::gpu::LargeArgs{}), hipErrorInvalidValue);  // more than 4096 bytes
    succeed(hipDeviceSynchronize());
  });
}

}  // namespace
}  // namespace emulated_hip
