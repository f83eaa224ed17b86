// The report of parts that crash, hang and fail: shell scripts in place of the program.
#include "src/report/report.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "src/base/error.h"

namespace gabbro::report {
namespace {

using testing::HasSubstr;

// $0 is the part, $2 its folder.
constexpr const char* kScript = R"(
case $0 in
  machine) echo '{"check":"gpus"}' >$2/machine.jsonl; echo last words; kill -SEGV $$ ;;
  hip) echo '{"fact":"init"}' >$2/hip.jsonl; exec sleep 100 ;;
  devices) echo '{"id":"rocm:0","usable":true,"wave_size":32}' >$2/devices.jsonl ;;
  kernels) test -n "$GABBRO_HIP_TRACE" || exit 9; echo 'cannot open the device' >&2; exit 3 ;;
  ranges) mkdir $2/sub; echo text >$2/sub/file ;;
  *) test -z "$GABBRO_HIP_TRACE" ;;
esac)";

class Report : public testing::Test {
 protected:
  Report() { options_.path = testing::TempDir() + "gabbro_report_" + std::to_string(::getpid()) + ".tar.zst"; }
  ~Report() override { std::filesystem::remove(options_.path); }

  // The files of the archive by name, which the returned ones are too.
  std::map<std::string, std::string> run(const char* script) {
    options_.command = {"/bin/sh", "-c", script};
    std::map<std::string, std::string> files;
    for (const ReportFile& file : make_report(options_)) files[file.name] = file.content;
    for (const ReportFile& file : read_archive(options_.path)) EXPECT_EQ(files[file.name], file.content);
    states_.clear();
    const auto manifest = nlohmann::json::parse(files["manifest.json"]);
    for (const auto& part : manifest["parts"]) {
      states_[part["part"]] = part["state"];
      messages_[part["part"]] = part["message"];
    }
    return files;
  }

  ReportOptions options_;
  std::map<std::string, std::string> states_, messages_;
};

TEST_F(Report, CrashesAndHangsAreResults) {
  options_.seconds = 30;  // 2.5 s for "hip"
  int ended = 0;
  options_.progress = [&](const std::string&, const std::string& state, double) {
    if (state.empty()) return;
    // The archive holds all parts before this one.
    const std::string manifest = read_archive(options_.path).front().content;
    EXPECT_EQ(nlohmann::json::parse(manifest)["parts"].size(), static_cast<size_t>(ended++));
  };
  auto files = run(kScript);
  EXPECT_EQ(states_["machine"], "crashed");
  EXPECT_THAT(messages_["machine"], HasSubstr("signal 11 (Segmentation fault); last words"));
  EXPECT_EQ(files["machine.jsonl"], "{\"check\":\"gpus\"}\n");
  EXPECT_EQ(files["machine.log"], "last words\n");
  EXPECT_EQ(states_["hip"], "hung");
  EXPECT_EQ(files["hip.jsonl"], "{\"fact\":\"init\"}\n");
  EXPECT_EQ(states_["kernels"], "failed");
  EXPECT_EQ(messages_["kernels"], "exit code 3; cannot open the device");
  EXPECT_EQ(states_["ranges"], "ok");
  EXPECT_EQ(files["sub/file"], "text\n");
  EXPECT_EQ(states_["copies_no_sdma"], "ok");  // the device is one of AMD
  EXPECT_EQ(states_.count("fault"), 0U);
  EXPECT_EQ(ended, static_cast<int>(states_.size()));
}

TEST_F(Report, PartsAreLeftOutWithoutADevice) {
  run("exit 0");
  EXPECT_EQ(states_["kernels"], "skipped");
  EXPECT_EQ(messages_["kernels"], "there is no usable GPU");
  run("test $0 != devices");
  EXPECT_EQ(messages_["model"], "listing the devices has failed");
  options_.part.device = "pci:03:00.0";  // the part looks for it
  run("exit 0");
  EXPECT_EQ(states_["kernels"], "ok");
  EXPECT_EQ(states_["copies_no_sdma"], "skipped");
  options_.faults = true;
  run("exit 0");
  EXPECT_EQ(states_["fault"], "ok");
}

TEST_F(Report, EndsWhereTheUserStopsIt) {
  std::atomic<bool> stop = false;
  options_.stop = &stop;
  options_.progress = [&](const std::string& part, const std::string& state, double) {
    if (part == "hip" && state.empty()) stop = true;
  };
  run(kScript);
  EXPECT_EQ(states_["machine"], "crashed");
  EXPECT_EQ(states_["hip"], "stopped");
  EXPECT_EQ(states_["model"], "stopped");
}

TEST_F(Report, TheTimeOfAllPartsIsLimited) {
  options_.seconds = 3;
  options_.part.device = "rocm:0";
  run("exec sleep 100");
  EXPECT_EQ(states_["machine"], "hung");
  EXPECT_EQ(states_["model"], "skipped");
  ReportOptions elsewhere = options_;
  elsewhere.path = "/no/such/folder/x.tar.zst";
  EXPECT_THROW(make_report(elsewhere), Error);
}

TEST(ReportParts, AreAtMostTenMinutesTogether) {
  int seconds = 0;
  for (const Part& part : part_table()) seconds += part.seconds;
  EXPECT_LE(seconds, 600);
  EXPECT_EQ(find_part("kernels")->kind, PartKind::kDevice);
  EXPECT_THROW(run_part("no such part", ".", {}), Error);
}

}  // namespace
}  // namespace gabbro::report
