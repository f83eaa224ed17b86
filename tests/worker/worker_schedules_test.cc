// Random orders of events on an engine in a worker process: requests get the tokens that they get alone in this
// process, and the worker's cache loses no pages. The test's program is the worker, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>

#include "src/engine/worker/child.h"
#include "src/engine/worker/worker.h"
#include "tests/llm/random_schedule.h"
#include "tests/llm/recorded_answer.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

constexpr std::string_view kChild = "--worker-process";

class WorkerSchedules : public testing::Test {
 protected:
  static constexpr int kSequences = 3;
  static constexpr int64_t kContext = 1024, kPage = 64;  // a prompt may take two chunks of a CPU

  static EngineSpec spec() {
    test::TinyModel model = test::tiny_llama();
    model.fields["context_length"] = kContext;
    return {.path = model.write("worker_schedules"),
            .options = {.threads = 1, .context = kContext, .sequences = kSequences},
            .deterministic = true};
  }
  static std::unique_ptr<worker::Worker> start() {
    auto process = std::make_unique<worker::Worker>(
        spec(), worker::WorkerOptions{
                    .command = {std::filesystem::read_symlink("/proc/self/exe").string(), std::string(kChild)}});
    process->wait_until_loaded();
    return process;
  }

  // Whether a third request begins while two hold all pages but the ones that it needs. False also if one of them ends
  // before the third arrives.
  static bool begins_in_the_last_pages(GenerationLoop& loop) {
    using Answers = std::vector<std::shared_ptr<test::RecordedAnswer>>;
    Answers holders;
    for (int i = 0; i < kSequences - 1; ++i) {
      holders.push_back(std::make_shared<test::RecordedAnswer>());
      loop.add(test::greedy_request(test::prompt_of(i, kContext - kPage + 1), kPage - 1), holders.back());
    }
    const auto all_hold = [&] { return std::ranges::none_of(holders, &test::RecordedAnswer::ended); };
    const auto all_have_text = [&] {
      return std::ranges::none_of(holders, [](const auto& one) { return one->text_so_far.empty(); });
    };
    while (all_hold() && !all_have_text()) loop.step();
    // The scheduler wants a page for the next token of each request.
    const int64_t pages = kContext / kPage - kSequences;
    const auto third = std::make_shared<test::RecordedAnswer>();
    loop.add(test::greedy_request(test::prompt_of(kSequences, pages * kPage), 1), third);
    while (all_hold() && third->starts == 0) loop.step();
    const bool begins = all_hold() && third->starts == 1;
    while (loop.step()) {
    }
    return begins;
  }
};

TEST_F(WorkerSchedules, RequestsGetTheTokensThatTheyGetAlone) {
  test::ScheduleRequests requests(680, {.deterministic = true},
                                  [] { return Engine::load(spec().path, spec().options); });
  const auto process = start();
  const int count = test::schedule_count(40);
  for (int seed = 0; seed < count && !HasFailure(); ++seed)
    test::run_schedule(*process, static_cast<unsigned>(seed), requests);
  // On a crowded machine the third request may arrive too late: then the next round tells.
  bool begins = false;
  for (int round = 0; round < 50 && !begins; ++round) begins = begins_in_the_last_pages(*process);
  EXPECT_TRUE(begins) << "pages are missing: a request waits until another one has ended";
  EXPECT_TRUE(process->is_ready());
}

}  // namespace
}  // namespace gabbro

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == gabbro::kChild) return gabbro::worker::run_child();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
