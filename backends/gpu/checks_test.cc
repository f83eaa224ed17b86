// The checks of `gabbro doctor --self-test`, through the plugin's table, on the simulator.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "backends/gpu/sim/memory.h"
#include "gabbro/backend_abi.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu {
namespace {

using abi::CheckStatus;
using abi::StatusCode;

class Checks : public testing::Test {
 protected:
  ~Checks() override {
    ::unsetenv("GABBRO_SIM_FAIL");
    EXPECT_EQ(sim::allocation_count(), 0U) << "a check left memory behind";
  }

  static abi::Status run(const char* id, abi::CheckResult& result) {
    return gabbro_backend()->run_check(0, id, &result);
  }
};

TEST_F(Checks, AllIsWell) {
  for (const auto& [id, summary] :
       {std::pair{"code-objects", "host code, waves of 32"}, std::pair{"allocator", "memory is back after 32 cycles"},
        std::pair{"host-copies", " GB/s pinned, "}}) {
    abi::CheckResult result;
    ASSERT_EQ(run(id, result).code, StatusCode::kOk) << id;
    if (std::string(id) != "host-copies") {  // whose rates depend on what else the machine does
      EXPECT_EQ(result.status, CheckStatus::kOk) << id;
    }
    EXPECT_NE(result.status, CheckStatus::kError) << id;
    EXPECT_NE(std::string(result.summary).find(summary), std::string::npos) << result.summary;
  }
}

TEST_F(Checks, UnknownOnes) {
  abi::CheckResult result;
  for (const char* id : {"", "no such check", "bandwidth"}) {  // the simulator's memory has no bandwidth
    EXPECT_EQ(run(id, result).code, StatusCode::kUnsupported) << id;
  }
}

TEST_F(Checks, ADeviceThatFailsIsAFailureOfTheCheck) {
  // The first allocation is the device's own. The second of the copies; the pool answers that of the allocator's check
  // by giving back what it keeps.
  for (const auto& [id, fault] : {std::pair{"allocator", "malloc:2"}, std::pair{"host-copies", "malloc:3"}}) {
    ::setenv("GABBRO_SIM_FAIL", fault, 1);
    abi::CheckResult result;
    const abi::Status status = run(id, result);
    EXPECT_EQ(status.code, StatusCode::kOutOfMemory) << id;
    EXPECT_NE(std::string(status.message).find("no device memory for "), std::string::npos) << status.message;
  }
}

}  // namespace
}  // namespace gabbro::gpu
