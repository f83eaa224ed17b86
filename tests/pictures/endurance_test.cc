// Many pictures from one pipeline: memory, equality with pictures of fresh processes, cancellation, sizes.
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gabbro/error.h"
#include "src/base/seconds_since.h"
#include "src/pictures/pipeline.h"
#include "tests/pictures/expected_tensors.h"

namespace gabbro::pictures {
namespace {

// Ten different requests: size, sampler, adapter and its strength, mask or hires fix, bands.
constexpr int kKinds = 10;

PictureRequest request_of(int number) {
  const int kind = number % kKinds;
  const char* const samplers[] = {"euler", "dpmpp_2m", "euler_a", "ddim", "unipc", "lcm", "pndm"};
  const char* const loras[] = {"lora_kohya", "lokr", "dora_rows", "text"};
  PictureRequest request{.prompt = kind == 3 ? "" : "a red heart",
                         .negative = kind == 6 ? "blurry" : "",
                         .width = 16 + 8 * (kind % 4),
                         .height = 16 + 8 * (kind % 3),
                         .steps = 2 + kind % 3,
                         .guidance = kind == 4 ? 1 : 5,
                         .seed = static_cast<uint64_t>(kind),
                         .sampler = samplers[kind % 7]};
  if (kind % 3 > 0)
    request.loras = {{picture_folder(std::string("lora/") + loras[kind % 4] + ".safetensors"), 0.4 + 0.1 * kind}};
  if (kind == 5) request.hires = 1.5;
  if (kind == 8) request.bands = DecodeBands::kOn;
  return request;
}

std::shared_ptr<Pipeline> load_tiny() { return Pipeline::load(picture_folder("sd15"), {.threads = 2}); }

// Draws a picture and writes its pixels: the other process of the test below.
TEST(Endurance, DISABLED_draws_one_picture) {
  const char *const number = std::getenv("GABBRO_PICTURE"), *const path = std::getenv("GABBRO_PIXELS");
  ASSERT_TRUE(number != nullptr && path != nullptr);
  const std::vector<uint8_t> pixels = load_tiny()->generate(request_of(std::atoi(number))).picture.pixels;
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(pixels.data()), std::ssize(pixels));
}

std::vector<uint8_t> pixels_of_a_fresh_process(int number) {
  const std::string path = testing::TempDir() + "pixels." + std::to_string(::getpid());
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = fmt::format(
      "GABBRO_PICTURE={} GABBRO_PIXELS='{}' '{}' --gtest_also_run_disabled_tests "
      "--gtest_filter=Endurance.DISABLED_draws_one_picture > /dev/null",
      number, path, program);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> pixels{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  return pixels;
}

// Bytes of the heap that are allocated, mapped blocks included.
double used_bytes() {
  const struct mallinfo2 facts = ::mallinfo2();
  return static_cast<double>(facts.uordblks + facts.hblkhd);
}

// GABBRO_SOAK_PICTURES: how many, 20 by default.
TEST(Endurance, pictures_leave_memory_flat_and_equal_those_of_fresh_processes) {
  const char* const given = std::getenv("GABBRO_SOAK_PICTURES");
  const int count = given != nullptr ? std::atoi(given) : 2 * kKinds;
  const auto pipeline = load_tiny();
  std::vector<std::vector<uint8_t>> first;
  double middle = 0;
  for (int i = 0; i < count; ++i) {
    const std::vector<uint8_t> pixels = pipeline->generate(request_of(i)).picture.pixels;
    if (i < kKinds) {
      first.push_back(pixels);
    } else {
      EXPECT_EQ(pixels, first[static_cast<size_t>(i % kKinds)]) << i;
    }
    if (i == count - kKinds - 1) middle = used_bytes();  // the same request as the last one
  }
  const double last = used_bytes();
  std::printf("%d pictures: %.0f KiB in use, %.0f KiB ten pictures before\n", count, last / 1024, middle / 1024);
  EXPECT_LE(last, 1.01 * middle);
  for (int kind = 0; kind < kKinds; ++kind)
    EXPECT_EQ(pixels_of_a_fresh_process(kind), first[static_cast<size_t>(kind)]) << kind;
}

TEST(Endurance, cancellation_takes_at_most_200_ms) {
  const auto pipeline = load_tiny();
  // Steps of some ten milliseconds; then the decoder, which is larger.
  double fastest = 1e9;
  for (int attempt = 0; attempt < 5 && fastest > 0.2; ++attempt) {  // other programs may take the machine's time
    std::atomic<bool> cancel = false;
    PictureRequest request{.prompt = "a", .width = 128, .height = 128, .steps = 1000, .cancel = &cancel};
    std::chrono::steady_clock::time_point asked;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      asked = std::chrono::steady_clock::now();
      cancel = true;
    });
    EXPECT_THROW(pipeline->generate(request), Error);
    const auto stopped = std::chrono::steady_clock::now();
    other.join();
    fastest = std::min(fastest, std::chrono::duration<double>(stopped - asked).count());
  }
  EXPECT_LE(fastest, 0.2);
  // The pipeline goes on afterward.
  EXPECT_EQ(pipeline->generate(request_of(0)).picture.pixels, load_tiny()->generate(request_of(0)).picture.pixels);
}

TEST(Endurance, takes_sizes_from_64_to_1024_by_8) {
  const auto pipeline = load_tiny();
  for (int64_t side = 64; side <= 1024; side += 8) {
    for (const bool wide : {true, false}) {
      PictureRequest request{.prompt = "a", .steps = 1, .guidance = 1};
      request.width = wide ? side : 8;
      request.height = wide ? 8 : side;
      const images::Picture picture = pipeline->generate(request).picture;
      ASSERT_EQ(picture.width, request.width);
      ASSERT_EQ(picture.height, request.height);
    }
  }
}

TEST(Endurance, of_guidance_up_to_1_the_negative_prompt_has_no_part) {
  const auto pipeline = load_tiny();
  for (const double guidance : {0.0, 0.5, 1.0}) {
    PictureRequest request = request_of(0);
    request.guidance = guidance;
    const PictureResult without = pipeline->generate(request);
    request.negative = "blurry";
    const PictureResult with = pipeline->generate(request);
    EXPECT_EQ(with.latent, without.latent) << guidance;
    EXPECT_EQ(with.evaluations, request.steps);
    request.guidance = 1;
    EXPECT_EQ(pipeline->generate(request).latent, without.latent) << guidance;
  }
}

TEST(Endurance, takes_empty_prompts) {
  const auto pipeline = load_tiny();
  for (const PromptSyntax syntax : {PromptSyntax::kA1111, PromptSyntax::kComfyUi, PromptSyntax::kPlain}) {
    PictureRequest request = request_of(0);
    request.syntax = syntax;
    request.prompt = request.negative = "";
    const PictureResult empty = pipeline->generate(request);
    request.prompt = request.negative = "   ";
    EXPECT_EQ(pipeline->generate(request).latent, empty.latent);
    request.guidance = 1;  // both prompts are the same, so that guidance changes nothing but rounding
    EXPECT_LE(relative_error(pipeline->generate(request).latent, empty.latent), 1e-4);
  }
}

}  // namespace
}  // namespace gabbro::pictures
