// The archive of the plugin's device code, the targets of ELF files, and the table of kernels.
#include "backends/gpu/hip/code_archive.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "backends/gpu/api.h"
#include "backends/gpu/hip/code_packer.h"
#include "backends/gpu/hip/code_target.h"
#include "backends/gpu/hip/elf_target.h"
#include "backends/gpu/hip/kernel_files.h"
#include "backends/gpu/sim/block.h"

namespace gabbro::gpu::hip {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The header of a code object as clang writes it: 64-bit little-endian ELF, system 64, ABI 3 or 4, machine 224.
std::string elf(uint32_t flags, std::string_view code = "") {
  std::string file("\177ELF\2\1\1\100\4", 9);
  file.resize(64, '\0');
  file[18] = '\340';
  std::memcpy(&file[48], &flags, sizeof flags);
  return file += code;
}

std::string noise(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

std::string unpacked(const CodeArchive& archive, std::string_view target, std::string_view source) {
  const auto code = archive.unpack(target, source);
  return code ? std::string(code->begin(), code->end()) : "nothing";
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const ApiError& error) {
    return error.what();
  }
  return "nothing is refused";
}

// Flags that clang 22 wrote for these targets, with the bits of xnack, sramecc and the generic version.
TEST(ElfTarget, ReadsTheFlagsOfEachTarget) {
  EXPECT_EQ(elf_target(elf(0x52f)), "gfx906");
  EXPECT_EQ(elf_target(elf(0x53f)), "gfx90a");
  EXPECT_EQ(elf_target(elf(0x54c)), "gfx942");
  EXPECT_EQ(elf_target(elf(0x36)), "gfx1030");
  EXPECT_EQ(elf_target(elf(0x41)), "gfx1100");
  EXPECT_EQ(elf_target(elf(0x4a)), "gfx1151");
  EXPECT_EQ(elf_target(elf(0x4e)), "gfx1201");
  EXPECT_EQ(elf_target(elf(0x1000054)), "gfx11-generic");
  EXPECT_EQ(elf_target(elf(0x1000059)), "gfx12-generic");
  EXPECT_EQ(elf_target(elf(0xff)), "") << "no target has this number";
}

TEST(ElfTarget, RefusesOtherFiles) {
  EXPECT_EQ(elf_target(""), "");
  EXPECT_EQ(elf_target(elf(0x41).substr(0, 63)), "") << "truncated";
  EXPECT_EQ(elf_target("__CLANG_OFFLOAD_BUNDLE__" + elf(0x41)), "");
  EXPECT_EQ(elf_target("CCOB" + elf(0x41)), "") << "a compressed bundle";
  std::string other = elf(0x41);
  other[18] = 62;  // x86-64
  EXPECT_EQ(elf_target(other), "");
}

TEST(CodeArchive, ReturnsEachImageOfEachTarget) {
  const std::string common = noise(20000, 1), other = noise(30000, 2);
  const std::string packed = pack_code({{"gfx1100", "rms_norm", elf(0x41, common)},
                                        {"gfx1101", "rms_norm", elf(0x46, common + "x")},
                                        {"gfx11-generic", "rms_norm", elf(0x1000054, common)},
                                        {"gfx1100", "cast", elf(0x41, other)},
                                        {"gfx90a", "cast", elf(0x53f)}});
  const CodeArchive archive(packed);
  EXPECT_THAT(archive.targets(), ElementsAre("gfx11-generic", "gfx1100", "gfx1101", "gfx90a"));
  EXPECT_THAT(archive.sources("gfx1100"), ElementsAre("cast", "rms_norm"));
  EXPECT_EQ(unpacked(archive, "gfx1100", "rms_norm"), elf(0x41, common));
  EXPECT_EQ(unpacked(archive, "gfx1101", "rms_norm"), elf(0x46, common + "x"));
  EXPECT_EQ(unpacked(archive, "gfx11-generic", "rms_norm"), elf(0x1000054, common));
  EXPECT_EQ(unpacked(archive, "gfx1100", "cast"), elf(0x41, other));
  EXPECT_EQ(unpacked(archive, "gfx90a", "cast"), elf(0x53f));
  EXPECT_EQ(unpacked(archive, "gfx90a", "rms_norm"), "nothing");
  EXPECT_EQ(unpacked(archive, "gfx1102", "cast"), "nothing");
  EXPECT_LT(packed.size(), 52000U) << "code that three targets have in common is there three times";
  EXPECT_EQ(choose_code("gfx1102", archive.targets()).target, "gfx11-generic");
}

TEST(CodeArchive, MayBeEmpty) {
  EXPECT_THAT(CodeArchive("").targets(), ElementsAre());
  EXPECT_THAT(CodeArchive(pack_code({})).targets(), ElementsAre());
}

TEST(CodeArchive, RefusesImagesOfAnotherTarget) {
  EXPECT_THAT(refusal([] {
                pack_code({{"gfx1100", "cast", elf(0x46)}});
              }),
              HasSubstr("the image of cast for gfx1100 is code for gfx1101"));
  EXPECT_THAT(refusal([] {
                pack_code({{"gfx1100", "cast", "CCOB"}});
              }),
              HasSubstr("the image of cast for gfx1100 is not an ELF file"));
  EXPECT_THAT(refusal([] {
                pack_code({{"gfx1100", "cast", elf(0x41)}, {"gfx1100", "cast", elf(0x41)}});
              }),
              HasSubstr("two images of cast for gfx1100"));
}

TEST(CodeArchive, ReportsDamage) {
  const std::string packed = pack_code({{"gfx1100", "cast", elf(0x41, noise(5000, 3))}});
  std::string flipped = packed;
  flipped[packed.size() - 2000] ^= 1;
  const CodeArchive damaged(flipped);
  EXPECT_THAT(refusal([&] { damaged.unpack("gfx1100", "cast"); }), HasSubstr("code of cast for gfx1100 is damaged"));
  EXPECT_THAT(refusal([&] { CodeArchive(std::string_view(packed).substr(0, packed.size() - 1)); }),
              HasSubstr("truncated"));
  EXPECT_THAT(refusal([&] { CodeArchive("x" + packed); }), HasSubstr("header"));
  EXPECT_THAT(refusal([&] { CodeArchive("gabbro code 1 1\ngfx1100 cast 5 x 0\n"); }), HasSubstr("index is damaged"));
  EXPECT_THAT(refusal([&] { CodeArchive("gabbro code 1 1\ngfx1100 cast 5 0 7\n"); }), HasSubstr("index is damaged"));
}

// The simulator registers the same kernels by another path: from its compiled sources.
TEST(KernelFiles, NameTheSourceOfEachKernel) {
  EXPECT_EQ(source_of_kernel("rms_norm"), "kernels/rows/rms_norm.cc");
  EXPECT_EQ(source_of_kernel("linear_q4_0_1"), "kernels/linear/linear_decode_q.cc");
  EXPECT_EQ(source_of_kernel("attention_step_f16_128"), "kernels/attention/attention_decode.cc");
  EXPECT_EQ(source_of_kernel("rms_nor"), "");
  EXPECT_EQ(source_of_kernel("rms_normal"), "");
  EXPECT_EQ(source_of_kernel(""), "");
  EXPECT_EQ(stem_of("kernels/rows/rms_norm.cc"), "rms_norm");
  EXPECT_GT(kernel_files().size(), 1000U);
  for (const KernelFile& file : kernel_files()) {
    EXPECT_NE(sim::find_kernel(std::string(file.kernel), 32), nullptr) << file.kernel;
    EXPECT_EQ(source_of_kernel(file.kernel), file.source);
  }
}

}  // namespace
}  // namespace gabbro::gpu::hip
