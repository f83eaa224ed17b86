#include "backends/cpu/pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <numeric>
#include <thread>

namespace gabbro::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(ThreadPool, RunsTheTaskOnceOnEachWorker) {
  for (const int workers : {1, 2, 3, 7}) {
    ThreadPool pool(workers, 2);
    EXPECT_EQ(pool.workers(), workers);
    std::vector<int> runs(workers, 0);
    for (int launch = 1; launch <= 50; ++launch) {
      EXPECT_TRUE(pool.run([&](Worker& worker) {
        EXPECT_EQ(worker.count(), workers);
        ++runs[worker.index()];
      }));
      EXPECT_EQ(runs, std::vector<int>(workers, launch));
    }
  }
}

TEST(ThreadPool, HasAWorkerAtLeast) { EXPECT_EQ(ThreadPool(0, 1).workers(), 1); }

TEST(ThreadPool, AloneTheCallerIsTheWholeTeam) {
  ThreadPool pool(3, 2);
  std::vector<int> items;
  for (int launch = 0; launch < 3; ++launch) {
    EXPECT_TRUE(pool.run_alone([&](Worker& worker) {
      EXPECT_EQ(worker.count(), 1);
      worker.parallel_for(5, 2, [&](int64_t begin, int64_t end) { items.push_back(static_cast<int>(end - begin)); });
      worker.barrier();
      worker.stream_for(3, 1, [&](int64_t begin, int64_t end) { items.push_back(static_cast<int>(end - begin)); });
    }));
  }
  EXPECT_EQ(items, (std::vector<int>{2, 2, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1}));
  const std::atomic<bool> cancel{true};
  EXPECT_FALSE(pool.run_alone([](Worker& worker) { EXPECT_TRUE(worker.stopped()); }, &cancel));
}

// The others wait at the barrier, and the caller's barriers inside are of a team of one.
TEST(ThreadPool, OneWorkerWorksAloneInsideALaunch) {
  ThreadPool pool(3, 2);
  std::vector<int> items;
  for (int launch = 0; launch < 3; ++launch) {
    EXPECT_TRUE(pool.run([&](Worker& worker) {
      if (worker.index() == 0) {
        pool.run_alone_inside([&](Worker& alone) {
          EXPECT_EQ(alone.count(), 1);
          for (int round = 0; round < 4; ++round) {
            alone.parallel_for(5, 2,
                               [&](int64_t begin, int64_t end) { items.push_back(static_cast<int>(end - begin)); });
            alone.barrier();
          }
        });
      }
      worker.barrier();
      EXPECT_EQ(items.size(), 12U * (launch + 1));
    }));
  }
}

// Writes of one worker before a barrier are read by all after it.
TEST(Barrier, OrdersTheWorkOfAll) {
  constexpr int kRounds = 2000;
  for (const int workers : {1, 2, 3}) {
    ThreadPool pool(workers, 2);
    std::vector<int64_t> values(workers, 0);
    std::atomic<int> wrong{0};
    pool.run([&](Worker& worker) {
      for (int round = 1; round <= kRounds; ++round) {
        values[worker.index()] = round;
        worker.barrier();
        if (std::accumulate(values.begin(), values.end(), int64_t{0}) != int64_t{round} * workers) ++wrong;
        worker.barrier();
      }
    });
    EXPECT_EQ(wrong, 0);
  }
}

// Each item is done exactly once, by its own worker or by one that helps: here worker 0 is slow, so the others must.
TEST(StreamFor, DoesEachItemOnceAndHelpsTheSlow) {
  for (const int workers : {1, 2, 3}) {
    ThreadPool pool(workers, 2);
    for (const int64_t items : {0, 1, 2, 5, 17, 200}) {
      std::vector<std::atomic<int>> done(items);
      std::atomic<int64_t> by_first{0};
      pool.run([&](Worker& worker) {
        for (int round = 0; round < 2; ++round) {
          const int together = round == 0 ? 1 : 3;
          worker.stream_for(items, together, [&](int64_t begin, int64_t end) {
            EXPECT_LE(end - begin, together);
            if (worker.index() == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
            for (int64_t i = begin; i < end; ++i) ++done[i];
            if (worker.index() == 0) by_first += end - begin;
          });
          worker.barrier();
        }
      });
      for (int64_t i = 0; i < items; ++i) EXPECT_EQ(done[i], 2) << i << " of " << items;
      if (items == 200 && workers > 1) {
        EXPECT_LT(by_first, 2 * items / workers);
      }
    }
  }
}

// Each item of each loop is done exactly once, with several loops between two barriers and odd counts and grains.
TEST(ParallelFor, DoesEachItemOnce) {
  for (const int workers : {1, 2, 3}) {
    ThreadPool pool(workers, 2);
    for (const int64_t items : {0, 1, 2, 15, 16, 17, 63, 1009}) {
      for (const int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> done(items);
        constexpr int kLoops = 5;
        pool.run([&](Worker& worker) {
          for (int round = 0; round < 3; ++round) {
            for (int loop = 0; loop < kLoops; ++loop) {
              worker.parallel_for(items, grain, [&](int64_t begin, int64_t end) {
                EXPECT_LE(end - begin, grain);
                for (int64_t i = begin; i < end; ++i) ++done[i];
              });
            }
            worker.barrier();
          }
        });
        for (int64_t i = 0; i < items; ++i) ASSERT_EQ(done[i], 3 * kLoops) << "item " << i << " of " << items;
      }
    }
  }
}

// The counters of loops are used again every second barrier: phases of different kinds and lengths, over launches of an
// even and an odd number of barriers, while memory is expected, of no, odd and large size.
TEST(Barrier, LoopsStartAgainAfterIt) {
  constexpr int64_t kItems = 37;
  const std::vector<std::byte> weights(300001);
  for (const int workers : {1, 2, 3}) {
    ThreadPool pool(workers, 2);
    std::atomic<int64_t> done{0};
    int64_t expected = 0;
    const auto count = [&](int64_t begin, int64_t end) { done += end - begin; };
    for (const int phases : {1, 2, 5, 4, 1, 7}) {
      pool.run([&](Worker& worker) {
        for (int phase = 0; phase < phases; ++phase) {
          for (int loop = 0; loop < (phase * 3 + 1) % 5; ++loop) worker.parallel_for(kItems, 4, count);
          if (phase % 3 != 1) worker.stream_for(kItems, 1 + phase % 3, count);
          worker.expect({weights.data(), phase % 2 == 0 ? weights.size() : static_cast<size_t>(phase) - 1});
          worker.barrier();
        }
      });
      for (int phase = 0; phase < phases; ++phase)
        expected += kItems * ((phase * 3 + 1) % 5 + (phase % 3 != 1 ? 1 : 0));
      EXPECT_EQ(done, expected) << workers << " workers, " << phases << " phases";
    }
  }
}

TEST(ThreadPool, CallersTakeTurns) {
  ThreadPool pool(2, 2);
  int64_t sum = 0;  // not atomic: worker 0 alone adds
  const auto call = [&] {
    for (int i = 0; i < 500; ++i) {
      pool.run([&](Worker& worker) {
        if (worker.index() == 0) ++sum;
      });
    }
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(sum, 1000);
}

// A launch that would take minutes ends within 100 ms of the request, and says so; the next one is not affected.
TEST(Cancel, EndsALongLaunch) {
  ThreadPool pool(2, 2);
  std::atomic<bool> cancel{false};
  Clock::time_point requested;
  std::thread canceler([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    requested = Clock::now();
    cancel = true;
  });
  const bool finished = pool.run(
      [&](Worker& worker) {
        for (int step = 0; step < 1000 && !worker.stopped(); ++step) {
          worker.parallel_for(1000, 1,
                              [](int64_t, int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
          worker.barrier();
        }
      },
      &cancel);
  const double late = seconds_since(requested);
  canceler.join();
  EXPECT_FALSE(finished);
  EXPECT_LT(late, 0.1);
  EXPECT_TRUE(pool.run([](Worker&) {}));
}

TEST(Cancel, BeforeTheLaunchIsSeenByAll) {
  ThreadPool pool(3, 2);
  const std::atomic<bool> cancel{true};
  std::atomic<int> stopped{0};
  EXPECT_FALSE(pool.run([&](Worker& worker) { stopped += worker.stopped() ? 1 : 0; }, &cancel));
  EXPECT_EQ(stopped, 3);
}

// Spins for a fifth of a millisecond after the last launch, then sleeps.
TEST(ThreadPool, IdleCostsNoProcessorTime) {
  ThreadPool pool(4, 4);
  pool.run([](Worker& worker) { worker.barrier(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(processor_seconds() - before, 0.01);
}

// Twelve workers on two cores: 200 barriers must not cost a time slice each (12 workers · 200 · 4 ms would be 10 s).
TEST(ThreadPool, ManyMoreWorkersThanCoresDoNotCollapse) {
  ThreadPool pool(12, 2);
  const Clock::time_point start = Clock::now();
  std::atomic<int64_t> sum{0};
  pool.run([&](Worker& worker) {
    for (int i = 0; i < 200; ++i) {
      worker.parallel_for(24, 1, [&](int64_t, int64_t) { ++sum; });
      worker.barrier();
    }
  });
  EXPECT_EQ(sum, 24 * 200);
  EXPECT_LT(seconds_since(start), 5.0);
}

}  // namespace
}  // namespace gabbro::cpu
