// Compilers in child processes: their results, crashes and limits, and how many run at a time.
#include "backends/gpu/hip/compilations.h"

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>

#include "backends/gpu/api.h"
#include "backends/gpu/hip/compile_child.h"

namespace gabbro::gpu::hip {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

HelperProgram test_program() { return {.path = GABBRO_TEST_PROBE, .plugin = GABBRO_TEST_TASK_PLUGIN, .hip = ""}; }

std::string compiled(const std::string& source, std::string_view text = {}, const std::atomic<bool>* cancel = nullptr) {
  try {
    const std::vector<char> code = compile_in_child(test_program(), "gfx1201", source, text, cancel);
    return {code.begin(), code.end()};
  } catch (const ApiError& error) {
    return error.what();
  }
}

TEST(CompileChild, GivesTheCodeOfASourceOrAText) {
  EXPECT_EQ(compiled("kernels/a.cc"), "code of kernels/a.cc for gfx1201");
  EXPECT_EQ(compiled("fused_7", "text\n of a kernel"), "code of fused_7 for gfx1201: text\n of a kernel");
}

TEST(CompileChild, ACompilerThatCrashesIsOneError) {
  EXPECT_THAT(compiled("kernels/crash.cc"),
              testing::AllOf(HasSubstr("rocm: compiling kernels/crash.cc for gfx1201: the compiler crashed: signal 11"),
                             HasSubstr("after 'LLVM ERROR: out of registers'")));
  EXPECT_EQ(compiled("kernels/refused.cc"),
            "rocm: compiling kernels/refused.cc for gfx1201: kernels/refused.cc:7: error: no such register");
  EXPECT_THAT(compiled("kernels/silent.cc"), HasSubstr("the compiler wrote no code"));
}

TEST(CompileChild, ACompilerThatHangsIsKilled) {
  const auto limited =
      run_helper(test_program(), {"compile", "hang", "gfx1201", "/dev/null"}, "the compiler", std::chrono::seconds(1));
  EXPECT_FALSE(limited.succeeded);
  EXPECT_EQ(limited.problem, "the compiler did not end within 1 s");
  const std::atomic<bool> canceled = true;
  EXPECT_THAT(compiled("kernels/hang.cc", {}, &canceled), HasSubstr("the compiler was canceled"));
}

TEST(CompileChild, AMissingHelperOrPluginIsNamed) {
  HelperProgram program = test_program();
  program.path = "/nowhere/gabbro_probe";
  EXPECT_THAT(run_helper(program, {"compile"}, "the compiler", std::chrono::seconds(9)).problem,
              HasSubstr("/nowhere/gabbro_probe cannot be started"));
  program = test_program();
  program.plugin = "/nowhere/libgabbro_rocm.so";
  EXPECT_THAT(run_helper(program, {"compile"}, "the compiler", std::chrono::seconds(9)).problem,
              HasSubstr("/nowhere/libgabbro_rocm.so"));
}

TEST(CompileChild, LeavesNoFiles) {
  const auto leftovers = [] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
      count += entry.path().filename().string().starts_with("gabbro_compile_") ? 1 : 0;
    return count;
  };
  const int before = leftovers();
  compiled("kernels/a.cc");
  compiled("kernels/crash.cc");
  EXPECT_LE(leftovers(), before);
}

std::string text_of(const std::vector<char>& code) { return {code.begin(), code.end()}; }

TEST(Compilations, RunAFewAtATime) {
  std::atomic<int> running = 0, most = 0;
  Compilations compilations([&](const std::string& source, const std::atomic<bool>&) {
    const int now = ++running;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --running;
    return std::vector<char>(source.begin(), source.end());
  });
  std::vector<std::string> sources;
  for (int i = 0; i < 12; ++i) sources.push_back("source " + std::to_string(i));
  for (const std::string& source : sources) compilations.begin(source);
  for (const std::string& source : sources) EXPECT_EQ(text_of(compilations.take(source)), source);
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1U);
  EXPECT_EQ(most, static_cast<int>(std::min(cores, Compilations::kMostAtATime)));
}

TEST(Compilations, WhatIsWaitedForGoesFirst) {
  std::atomic<bool> released = false;
  std::mutex mutex;
  std::vector<std::string> order;
  Compilations compilations([&](const std::string& source, const std::atomic<bool>&) {
    while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::lock_guard lock(mutex);
    order.push_back(source);
    return std::vector<char>(source.begin(), source.end());
  });
  // At most four of them begin at once.
  for (const char* source : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}) compilations.begin(source);
  std::jthread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    released = true;
  });
  EXPECT_EQ(text_of(compilations.take("j")), "j");
  EXPECT_EQ(text_of(compilations.take("i")), "i");
  const std::lock_guard lock(mutex);
  EXPECT_LT(std::ranges::find(order, "j") - order.begin(), 8) << testing::PrintToString(order);
}

TEST(Compilations, AFailureIsThatOfItsSource) {
  Compilations compilations([&](const std::string& source, const std::atomic<bool>&) -> std::vector<char> {
    if (source == "bad") throw ApiError(abi::StatusCode::kFailed, "bad does not compile");
    return {'x'};
  });
  compilations.begin("bad");
  compilations.begin("good");
  EXPECT_EQ(text_of(compilations.take("good")), "x");
  EXPECT_THROW(compilations.take("bad"), ApiError);
  EXPECT_THROW(compilations.take("bad"), ApiError) << "it is tried again";
}

TEST(Compilations, EndWithTheirOwner) {
  const auto start = std::chrono::steady_clock::now();
  {
    Compilations compilations([&](const std::string&, const std::atomic<bool>& cancel) {
      while (!cancel) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return std::vector<char>();
    });
    for (const char* source : {"a", "b", "c", "d", "e", "f"}) compilations.begin(source);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace gabbro::gpu::hip
