#include "backends/gpu/graph_policy.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "backends/gpu/tuning/tuning_file.h"

namespace gabbro::gpu {
namespace {

// The entry of the tuning file: its choice is one of these candidates. A test that the process did not survive leaves
// kUnfinished and the number of such tests.
constexpr const char* kReplayed = "replayed";
constexpr const char* kLaunched = "launched";
constexpr std::string_view kUnfinished = "unfinished ";
constexpr int kMostUnfinished = 2;  // one may have been stopped by the user

std::string setting() {
  const char* value = std::getenv("GABBRO_GRAPHS");
  return value == nullptr ? "" : value;
}

TuningEntry unfinished_entry(int tests) {
  const std::string name = fmt::format("{}{}", kUnfinished, tests);
  return {.chosen = name, .candidates = {{name, 1}}};
}

// Nothing for an entry of a test that ended.
std::optional<int> unfinished_tests(std::string_view chosen) {
  if (!chosen.starts_with(kUnfinished)) return std::nullopt;
  int tests = 0;
  std::from_chars(chosen.data() + kUnfinished.size(), chosen.data() + chosen.size(), tests);
  return tests;
}

}  // namespace

GraphPolicy::GraphPolicy(api::GraphRules rules, Source source) : rules_(std::move(rules)), source_(std::move(source)) {
  const std::string wanted = setting();
  if (wanted == "1") {
    decided_ = true;
  } else if (wanted == "0") {
    disable(kSwitchedOff);
  } else if (!rules_.off.empty()) {
    disable(rules_.off);
  } else {
    decided_ = !rules_.tested;
  }
}

void GraphPolicy::disable(std::string reason) {
  decided_ = true;
  reason_ = std::move(reason);
  enabled_ = false;
}

bool GraphPolicy::allowed() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(decided_, true)) decide();
  return enabled();
}

void GraphPolicy::decide() {
  const TuningFile file(source_.file());
  std::string problem;
  const TuningTable table = file.load(problem);
  const auto known = table.find({source_.device(), kGraphVerdict});
  if (known == table.end()) return decide_by_check(0);
  const std::string& chosen = known->second.chosen;
  if (const auto tests = unfinished_tests(chosen)) {
    if (*tests < kMostUnfinished) return decide_by_check(*tests);
    disable(fmt::format("the process ended during their test, {} times ({})", *tests, file.path()));
  } else if (chosen == kReplayed) {
    evidence_ = fmt::format("tested before ({})", file.path());
  } else {
    disable(fmt::format("they failed the test on this device ({})", file.path()));
  }
}

void GraphPolicy::decide_by_check(int unfinished) {
  const TuningFile file(source_.file());
  const auto keep = [&](TuningEntry entry) {
    if (rules_.tested && !file.path().empty())
      static_cast<void>(file.store({{{source_.device(), kGraphVerdict}, std::move(entry)}}));
  };
  keep(unfinished_entry(unfinished + 1));
  try {
    const GraphCheck check = source_.check();
    const bool works = check.problem.empty();
    TuningEntry entry{.chosen = works ? kReplayed : kLaunched, .candidates = {{kLaunched, check.launched}}};
    if (works) entry.candidates.emplace_back(kReplayed, check.replayed);
    keep(std::move(entry));
    if (works) {
      evidence_ = kTested;
    } else {
      disable(check.problem);
    }
  } catch (const ApiError& error) {
    disable(fmt::format("their test could not be run: {}", error.what()));
    if (error.code == abi::StatusCode::kLost) throw;
    keep(unfinished_entry(unfinished));
  }
}

void GraphPolicy::check_again() {
  const std::lock_guard lock(mutex_);
  decided_ = true;
  if (enabled()) decide_by_check(0);
}

void GraphPolicy::failed(const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (++failures_ == 2) disable(fmt::format("they failed twice, the last time: {}", message));
}

std::string GraphPolicy::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

std::string GraphPolicy::evidence() const {
  const std::lock_guard lock(mutex_);
  return evidence_;
}

}  // namespace gabbro::gpu
