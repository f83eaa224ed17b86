// The probe of the GPU runtimes against a library that answers, hangs, aborts or fails (test_runtime.cc).
#include "src/backend/discovery/runtime_probe.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>

#include "src/backend/discovery/test_tree.h"
#include "src/base/child_process.h"

namespace gabbro::discovery {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A sanitized helper needs seconds where a plain one needs milliseconds.
constexpr milliseconds kPatience{60000};

RuntimeReport probe(RuntimeKind kind, const char* mode, milliseconds limit = kPatience) {
  ::setenv("LD_LIBRARY_PATH", GABBRO_TEST_RUNTIMES, 1);
  ::setenv("GABBRO_TEST_RUNTIME", mode, 1);
  const RuntimeReport report = probe_runtime(SystemRoot(), kind, limit);
  ::unsetenv("LD_LIBRARY_PATH");
  return report;
}

TEST(RuntimeProbe, ARuntimeThatAnswers) {
  const RuntimeReport hip = probe(RuntimeKind::kHip, "answer");
  EXPECT_EQ(hip.state, RuntimeState::kOk) << hip.message;
  EXPECT_EQ(hip.path, GABBRO_TEST_RUNTIMES "/libamdhip64.so.7");
  EXPECT_EQ(hip.version, "7.2.53211");
  EXPECT_THAT(hip.devices, ElementsAre("0000:c0:00.0", "0000:c1:00.0"));
  EXPECT_TRUE(hip.sees("0000:c1:00.0"));
  const RuntimeReport cuda = probe(RuntimeKind::kCuda, "answer");
  EXPECT_EQ(cuda.state, RuntimeState::kOk) << cuda.message;
  EXPECT_EQ(cuda.version, "12.8");
  EXPECT_EQ(cuda.devices.size(), 2U);
}

TEST(RuntimeProbe, NoDeviceIsAnAnswer) {
  const RuntimeReport report = probe(RuntimeKind::kHip, "no_device");
  EXPECT_EQ(report.state, RuntimeState::kOk);
  EXPECT_THAT(report.devices, IsEmpty());
}

TEST(RuntimeProbe, AHangIsAFinding) {
  const auto start = std::chrono::steady_clock::now();
  const RuntimeReport report = probe(RuntimeKind::kHip, "hang", milliseconds(1500));
  EXPECT_EQ(report.state, RuntimeState::kHung);
  EXPECT_THAT(report.message, HasSubstr("gave no answer within 1.5 s"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // no child is left
}

TEST(RuntimeProbe, AnAbortIsAFindingWithItsLastWords) {
  const RuntimeReport report = probe(RuntimeKind::kHip, "abort");
  EXPECT_EQ(report.state, RuntimeState::kCrashed);
  EXPECT_THAT(report.message, HasSubstr("signal 6 (Aborted)"));
  EXPECT_THAT(report.message, HasSubstr("rocBLAS error: could not load something"));
  EXPECT_EQ(probe(RuntimeKind::kCuda, "exit").state, RuntimeState::kCrashed);  // ended without an answer
}

TEST(RuntimeProbe, AnErrorIsNamed) {
  for (const RuntimeKind kind : {RuntimeKind::kHip, RuntimeKind::kCuda}) {
    const RuntimeReport report = probe(kind, "fail");
    EXPECT_EQ(report.state, RuntimeState::kFailed);
    EXPECT_EQ(report.message, "unknown error");
  }
}

TEST(RuntimeProbe, ARecordedMachineIsNotProbed) {
  const RuntimeReport report = probe_runtime(recorded("igpu_and_dgpu"), RuntimeKind::kHip);
  EXPECT_EQ(report.state, RuntimeState::kOk);
  EXPECT_THAT(report.devices, ElementsAre("0000:0e:00.0", "0000:03:00.0"));
  EXPECT_EQ(probe_runtime(recorded("no_driver"), RuntimeKind::kHip).state, RuntimeState::kMissing);
  EXPECT_EQ(probe_runtime(recorded("no_gpu"), RuntimeKind::kHip).state, RuntimeState::kNotProbed);
}

TEST(ChildProcess, WhatItSaysAndHowItEnds) {
  const ChildResult done = run_child({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, kPatience);
  EXPECT_TRUE(done.started);
  EXPECT_FALSE(done.succeeded);
  EXPECT_EQ(done.ending, "exit code 3");
  EXPECT_EQ(done.output, "out\nerr\n");
  EXPECT_TRUE(run_child({"/bin/sh", "-c", "exit 0"}, kPatience).succeeded);
  EXPECT_EQ(run_child({"/bin/sh", "-c", "cat"}, kPatience).output, "");  // its input is empty
  const ChildResult absent = run_child({"/nonexistent/program"}, kPatience);
  EXPECT_FALSE(absent.started);
  EXPECT_EQ(absent.ending, "No such file or directory");
}

TEST(ChildProcess, OutputIsBounded) {
  const ChildResult done = run_child({"/bin/sh", "-c", "yes | head -c 1000000"}, kPatience);
  EXPECT_TRUE(done.succeeded) << done.ending;
  EXPECT_EQ(done.output.size(), 65536U);
}

TEST(ChildProcess, WhatTheChildStartedIsKilledWithIt) {
  const ChildResult done = run_child({"/bin/sh", "-c", "sleep 600 & echo $!; wait"}, milliseconds(1500));
  EXPECT_TRUE(done.timed_out);
  const pid_t grandchild = std::atoi(done.output.c_str());
  ASSERT_GT(grandchild, 1);
  for (int i = 0; i < 500 && ::kill(grandchild, 0) == 0; ++i) ::usleep(10000);
  // Gone, or a zombie that its new parent has not fetched yet.
  const std::string stat = SystemRoot().read("/proc/" + std::to_string(grandchild) + "/stat").value_or(") Z");
  EXPECT_THAT(stat, HasSubstr(") Z"));
}

}  // namespace
}  // namespace gabbro::discovery
