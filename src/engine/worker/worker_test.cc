// The parent's side, with processes that say what a file holds in place of an engine. tests/cli/test_worker.py has real
// ones.
#include "src/engine/worker/worker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "src/base/error.h"

namespace gabbro::worker {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class Answer final : public Channel {
 public:
  void started() override { ++starts; }
  void text(std::string_view piece) override { text_so_far += piece; }
  void finished(GenerateResult value) override { result = std::move(value); }
  void failed(const Error& why) override { error = why.what(); }
  bool ended() const { return result || !error.empty(); }

  int starts = 0;
  std::string text_so_far, error;
  std::optional<GenerateResult> result;
};

class WorkerTest : public testing::Test {
 protected:
  WorkerTest() {
    fs::create_directories(folder_);
    LoadedFacts facts;
    facts.model.sequences = 1;
    write("loaded", {Progress{0.5}, Loaded{facts}});
  }
  ~WorkerTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::vector<Message>& messages) {
    std::ofstream file(folder_ / name, std::ios::binary);
    for (const Message& message : messages) file << encode(message);
  }
  // A worker whose processes run this shell script; `say NAME` sends the messages of a file.
  std::unique_ptr<Worker> start(const std::string& script, int restarts = kMostRestarts) {
    const std::string whole = "cd " + folder_.string() + "; say() { cat $1 >&3; }; " + script;
    return std::make_unique<Worker>(
        EngineSpec{.path = "model.gguf"},
        WorkerOptions{.command = {"/bin/sh", "-c", whole},
                      .most_restarts = restarts,
                      .on_progress = [this](double fraction) { progress_ = fraction; },
                      .on_notice = [this](const std::string& line) { notices_.push_back(line); }});
  }
  static std::string load_error(Worker& worker) {
    try {
      worker.wait_until_loaded();
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  static std::shared_ptr<Answer> add(Worker& worker) {
    auto answer = std::make_shared<Answer>();
    worker.add({.prompt = {1}}, answer);
    return answer;
  }
  static void run(Worker& worker) {
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (worker.step()) ASSERT_LT(Clock::now(), end);
  }
  static Finished answer_to(Ticket ticket) { return {ticket, {.text = "done", .token_ids = {1}}, {}}; }

  const fs::path folder_ = fs::temp_directory_path() / ("gabbro_worker_test_" + std::to_string(::getpid()));
  double progress_ = 0;
  std::vector<std::string> notices_;
};

TEST_F(WorkerTest, ProcessesThatDoNotServeSaySo) {
  EXPECT_THROW(Worker({}, {.command = {"/nonexistent/gabbro"}}), Error);
  EXPECT_EQ(load_error(*start("exit 9")), "loading model.gguf: the engine's process ended with exit code 9");
  EXPECT_EQ(load_error(*start("kill -ABRT $$")),
            "loading model.gguf: the engine's process ended with signal 6 (Aborted)");
  EXPECT_EQ(load_error(*start("echo what is this >&3; exec sleep 30")),
            "loading model.gguf: the engine's process cannot be understood: a message is of version 26912, expected 4");
  write("refused", {LoadFailed{{ErrorCode::kBadInput, "model.gguf: is damaged", ""}}});
  EXPECT_EQ(load_error(*start("say refused; exec sleep 30")), "model.gguf: is damaged");
  write("wrong", {Cancel{1}});
  EXPECT_EQ(load_error(*start("say wrong; exec sleep 30")),
            "loading model.gguf: the engine's process sent a message of the wrong kind");
}

TEST_F(WorkerTest, RequestsThatWaitAreGivenToTheNextProcess) {
  write("first", {Started{1}, Text{1, "half"}});
  write("lost", {Lost{"a fault in a kernel"}});
  write("second", {Started{2}, Text{2, "do"}, Text{2, "ne"}, answer_to(2), Started{3}, answer_to(3)});
  const auto worker = start(
      "if [ -e again ]; then say loaded; sleep 0.2; say second; exec sleep 30; else touch again; say loaded; sleep "
      "0.2; "
      "say first; sleep 0.1; say lost; exit 75; fi");
  EXPECT_EQ(load_error(*worker), "");
  EXPECT_EQ(progress_, 0.5);
  const auto one = add(*worker), two = add(*worker), three = add(*worker);
  const auto start = Clock::now();
  run(*worker);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(one->error, "the answer was lost: a fault in a kernel");
  EXPECT_EQ(one->text_so_far, "half");
  ASSERT_TRUE(two->result && three->result);
  EXPECT_EQ(two->text_so_far, "done");
  EXPECT_EQ(notices_, std::vector<std::string>{"the engine is started again"});
}

TEST_F(WorkerTest, GivesUpAfterRestartsWithoutAnAnswer) {
  for (int ticket = 1; ticket <= 9; ++ticket) write("started" + std::to_string(ticket), {Started{Ticket(ticket)}});
  // Each process begins the next request and ends.
  const auto worker =
      start("n=1; while [ -e at$n ]; do n=$((n+1)); done; touch at$n; say loaded; sleep 0.1; say started$n; exit 3", 2);
  EXPECT_EQ(load_error(*worker), "");
  std::vector<std::shared_ptr<Answer>> all;
  for (int i = 0; i < 5; ++i) all.push_back(add(*worker));
  run(*worker);
  const std::string cause = "the engine's process ended with exit code 3";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(all[static_cast<size_t>(i)]->error, "the answer was lost: " + cause);
  const std::string last = "the engine was lost 3 times without an answer, and is not started again: " + cause;
  for (int i = 3; i < 5; ++i) EXPECT_EQ(all[static_cast<size_t>(i)]->error, last);
  EXPECT_EQ(worker->descriptor(), -1);
  EXPECT_EQ(add(*worker)->error, last);
  EXPECT_FALSE(worker->step());
}

TEST_F(WorkerTest, WhatIsCanceledEndsInTime) {
  write("first", {Started{1}, Text{1, "half"}});
  const auto worker = start("say loaded; sleep 0.1; say first; exec sleep 30");  // it hangs
  EXPECT_EQ(load_error(*worker), "");
  auto running = std::make_shared<Answer>(), waiting = std::make_shared<Answer>();
  const Ticket ticket = worker->add({.prompt = {1}}, running);
  for (int i = 0; i < 3; ++i) worker->add({.prompt = {1}}, std::make_shared<Answer>());
  const Ticket other = worker->add({.prompt = {1}}, waiting);
  while (running->text_so_far.empty()) worker->step();
  const auto start = Clock::now();
  worker->cancel(other);
  worker->cancel(ticket);
  while (!running->ended() || !waiting->ended()) worker->step();
  EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(250));
  EXPECT_EQ(running->result->text, "half");
  EXPECT_EQ(running->result->stop_reason, StopReason::kCanceled);
  EXPECT_EQ(waiting->starts, 0);
  const std::atomic<bool> cancel = true;
  while (worker->step(&cancel)) {
  }
}

TEST_F(WorkerTest, EndsItsProcess) {
  auto worker = start("say loaded; echo $$ > id; exec sleep 30");
  EXPECT_EQ(load_error(*worker), "");
  pid_t process = 0;
  while (process == 0) std::ifstream(folder_ / "id") >> process;
  const auto start = Clock::now();
  worker.reset();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(::kill(process, 0), -1);
}

}  // namespace
}  // namespace gabbro::worker
