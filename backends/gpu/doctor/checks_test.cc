// The checks of `gabbro doctor --self-test`, through the plugin's table, on the simulator.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "backends/gpu/doctor/checks.h"
#include "backends/gpu/sim/memory.h"
#include "gabbro/backend_abi.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu {
namespace {

using abi::CheckStatus;
using abi::StatusCode;

class Checks : public testing::Test {
 protected:
  Checks() { ::setenv("GABBRO_TUNING_FILE", "", 1); }  // verdicts would be kept there
  ~Checks() override {
    for (const char* variable : {"GABBRO_SIM_FAIL", "GABBRO_TUNING_FILE"}) ::unsetenv(variable);
    EXPECT_EQ(sim::allocation_count(), 0U) << "a check left memory behind";
  }

  static abi::Status run(const char* id, abi::CheckResult& result) {
    return gabbro_backend()->run_check(0, id, &result);
  }
};

TEST_F(Checks, AllIsWell) {
  for (const auto& [id, summary] :
       {std::pair{"code-objects", "host code, waves of 32"},
        std::pair{"kernels", "26 kernels compute what the host does"},
        std::pair{"peer-copies", "copies come directly from sim:1"},
        std::pair{"graphs", "graphs of launches compute what single launches do"},
        std::pair{"allocator", "memory is back after 32 cycles"}, std::pair{"host-copies", " GB/s pinned, "}}) {
    abi::CheckResult result;
    ASSERT_EQ(run(id, result).code, StatusCode::kOk) << id;
    if (std::string(id) != "host-copies") {  // whose rates depend on what else the machine does
      EXPECT_EQ(result.status, CheckStatus::kOk) << id;
    }
    EXPECT_NE(result.status, CheckStatus::kError) << id;
    EXPECT_NE(std::string(result.summary).find(summary), std::string::npos) << result.summary;
  }
}

TEST_F(Checks, ProductsNamesTheLibrariesAndWhatIsMissing) {
  const auto found = [](const char* libraries, bool distrusted = false) {
    ::setenv("GABBRO_SIM_PRODUCTS", libraries, 1);
    if (distrusted) ::setenv("GABBRO_SIM_DISTRUSTS_PRODUCTS", "1", 1);
    abi::CheckResult result;
    EXPECT_EQ(run("products", result).code, StatusCode::kOk);
    ::unsetenv("GABBRO_SIM_PRODUCTS");
    ::unsetenv("GABBRO_SIM_DISTRUSTS_PRODUCTS");
    return std::string(result.status == CheckStatus::kOk        ? "ok: "
                       : result.status == CheckStatus::kWarning ? "warning: "
                                                                : "error: ") +
           result.summary;
  };
  EXPECT_EQ(found("1"), "ok: simulated library 1.0 may multiply matrices");
  EXPECT_EQ(found("missing,1"), "ok: simulated library 1.0 may multiply matrices; not missing library: it is missing");
  EXPECT_EQ(found("1", true),
            "ok: simulated library 1.0 may multiply matrices of shapes that were measured (gabbro tune)");
  EXPECT_EQ(found("missing"), "warning: Gabbro's own kernels multiply matrices, not missing library: it is missing");
  EXPECT_EQ(found("missing", true), "ok: Gabbro's own kernels multiply matrices, not missing library: it is missing");
  abi::CheckResult none;
  EXPECT_EQ(run("products", none).code, StatusCode::kUnsupported) << "a backend without libraries";
}

TEST_F(Checks, UnknownOnes) {
  abi::CheckResult result;
  for (const char* id : {"", "no such check", "bandwidth"}) {  // the simulator's memory has no bandwidth
    EXPECT_EQ(run(id, result).code, StatusCode::kUnsupported) << id;
  }
}

TEST_F(Checks, NoBandwidthIsAboveWhatTheMemoryCanDo) {
  abi::CheckResult result;
  judge_bandwidth(792e9, 960e9, result);
  EXPECT_STREQ(result.summary, "a copy moves 792 GB/s, 82 % of what the memory can do");
  judge_bandwidth(792e9, 120e9, result);  // by a clock of an eighth of the rate
  EXPECT_STREQ(result.summary, "a copy moves 792 GB/s; the figure for this card, 120 GB/s, is too low");
  EXPECT_EQ(result.status, CheckStatus::kOk);
  judge_bandwidth(300e9, 960e9, result);
  EXPECT_EQ(result.status, CheckStatus::kWarning);
}

TEST_F(Checks, DetailsOfKernelsGoToAFile) {
  const std::string path = testing::TempDir() + "gabbro_details_" + std::to_string(::getpid());
  ::setenv("GABBRO_DOCTOR_DETAILS", path.c_str(), 1);
  ::setenv("GABBRO_SIM_FAIL", "read:3", 1);  // the third result: of add, as a replayed graph
  abi::CheckResult result;
  ASSERT_EQ(run("kernels", result).code, StatusCode::kOk);
  ::unsetenv("GABBRO_DOCTOR_DETAILS");
  EXPECT_STREQ(result.summary, "26 kernels compute what the host does");
  std::ifstream file(path);
  int runs = 0, tables = 0, wrong = 0;
  for (std::string text; std::getline(file, text);) {
    const auto line = nlohmann::json::parse(text);
    if (line.contains("table")) {
      ++tables;
      ASSERT_EQ(line["rows"].size(), 16U);
      const bool transposed = line["table"].get<std::string>().find("transposed") != std::string::npos;
      EXPECT_EQ(line["rows"][1][2], transposed ? 2 * 16 + 1 : 16 + 2);
      continue;
    }
    ++runs;
    if (line["differing"] == 0) continue;
    ++wrong;
    EXPECT_EQ(line["kernel"], "add");
    EXPECT_EQ(line["how"], "graph");
    EXPECT_EQ(line["run"], 3);
    EXPECT_EQ(line["first"].size(), line["differing"].get<size_t>());
  }
  ::unlink(path.c_str());
  EXPECT_EQ(runs, 30 * 6);
  EXPECT_EQ(tables, 4);
  EXPECT_EQ(wrong, 1);
  ::setenv("GABBRO_DOCTOR_DETAILS", "/no/such/folder/x", 1);
  EXPECT_NE(
      std::string(run("kernels", result).message).find("GABBRO_DOCTOR_DETAILS=/no/such/folder/x cannot be written"),
      std::string::npos);
  ::unsetenv("GABBRO_DOCTOR_DETAILS");
}

TEST_F(Checks, AKernelThatIsWrongIsNamed) {
  ::setenv("GABBRO_SIM_FAIL", "read:3", 1);  // the third result
  abi::CheckResult result;
  ASSERT_EQ(run("kernels", result).code, StatusCode::kOk);
  EXPECT_EQ(result.status, CheckStatus::kError);
  EXPECT_EQ(std::string(result.summary).find("1 of 26 kernels compute something else than the host: cumsum (off by "),
            0U)
      << result.summary;
  EXPECT_EQ(std::string(result.fix).find("use --device cpu; run it once more: "), 0U) << result.fix;
}

// The read after the results of the kernels is of the counters of their blocks.
TEST_F(Checks, CountersThatAreLeftBehindAreFound) {
  ::setenv("GABBRO_SIM_FAIL", "read:27", 1);
  abi::CheckResult result;
  ASSERT_EQ(run("kernels", result).code, StatusCode::kOk);
  EXPECT_EQ(result.status, CheckStatus::kError);
  EXPECT_STREQ(result.summary, "after all kernels have ended, counter 512 of their blocks is 32 and not 0");
}

TEST_F(Checks, GraphsThatAreWrongOrSwitchedOff) {
  ::setenv("GABBRO_SIM_FAIL", "graph:stale", 1);
  abi::CheckResult result;
  ASSERT_EQ(run("graphs", result).code, StatusCode::kOk);
  EXPECT_EQ(result.status, CheckStatus::kWarning);
  EXPECT_STREQ(result.summary,
               "launches are not replayed as graphs: replay 1 of a graph of 300 launches computes something else than "
               "single launches");
  ::setenv("GABBRO_GRAPHS", "0", 1);
  ASSERT_EQ(run("graphs", result).code, StatusCode::kOk);
  EXPECT_EQ(result.status, CheckStatus::kOk);
  EXPECT_STREQ(result.summary, "launches are not replayed as graphs: GABBRO_GRAPHS=0 asks for it");
  ::unsetenv("GABBRO_GRAPHS");
}

TEST_F(Checks, PeerCopiesThatAreDamagedOrImpossible) {
  const auto expect = [](const char* fault, CheckStatus status, const char* summary, const char* fix) {
    ::setenv("GABBRO_SIM_FAIL", fault, 1);
    abi::CheckResult result;
    ASSERT_EQ(run("peer-copies", result).code, StatusCode::kOk);
    EXPECT_EQ(result.status, status) << fault;
    EXPECT_EQ(std::string(result.summary).find(summary), 0U) << result.summary;
    EXPECT_EQ(std::string(result.fix).find(fix), 0U) << result.fix;
  };
  const char* staged = "copies from sim:1 go through the host's memory: ";
  expect("peer:2", CheckStatus::kError,
         "copies from sim:1 go through the host's memory: of 4097 bytes sent directly the checksum was ",
         "iommu=pt on the kernel's command line, then restart; ");
  expect("unreachable:1", CheckStatus::kWarning,
         "copies from sim:1 go through the host's memory: sim: the devices do not reach each other's memory",
         "put the cards behind one root port");
  expect("peer-error:1", CheckStatus::kWarning, staged, "put the cards behind one root port");
  ::setenv("GABBRO_PEER_COPIES", "0", 1);
  expect("peer:1", CheckStatus::kOk, "copies from sim:1 go through the host's memory: GABBRO_PEER_COPIES=0 asks for it",
         "");
  ::unsetenv("GABBRO_PEER_COPIES");
  // The first copy to the host is the staged one's where the other test does not run.
  expect("unreachable:1,read:1", CheckStatus::kError, "copies from sim:1 are damaged even through the host's memory",
         "iommu=pt");
}

TEST_F(Checks, ADeviceThatFailsIsAFailureOfTheCheck) {
  // The first three allocations are the device's. The next one is of the copies; the pool answers the allocator check's
  // by releasing what it caches.
  for (const auto& [id, fault] : {std::pair{"allocator", "malloc:4"}, std::pair{"host-copies", "malloc:5"}}) {
    ::setenv("GABBRO_SIM_FAIL", fault, 1);
    abi::CheckResult result;
    const abi::Status status = run(id, result);
    EXPECT_EQ(status.code, StatusCode::kOutOfMemory) << id;
    EXPECT_NE(std::string(status.message).find("no device memory for "), std::string::npos) << status.message;
  }
}

}  // namespace
}  // namespace gabbro::gpu
