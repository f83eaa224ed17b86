// The processes that mpirun or srun has started, as ranks of one computation. Each has a thread that tells the others
// that it lives: a rank that is stopped or gone is named within seconds, also while this one waits for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "src/base/mpi/library.h"

namespace gabbro::mpi {

class Ranks {
 public:
  // The ranks of this process: joins them in the first call, and leaves them when the process exits. Throws failed() if
  // MPI cannot be used.
  static Ranks& shared();
  // Whether shared() was called, and has not thrown.
  static bool are_joined();

  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() = delete;  // lives until the process ends

  size_t rank() const { return rank_; }
  size_t size() const { return peers_.size(); }
  const std::string& version() const { return mpi_.version; }
  // "rank 1 (process 4711 on node2)"
  std::string name_of(size_t rank) const;

  // All ranks make the same calls in the same order, each from one thread at a time. They throw DeviceLost with the
  // name of a rank that has not answered for the patience (3 s; GABBRO_SPLIT_PATIENCE: seconds), failed() for one that
  // has left, and Error kInterrupted when `cancel` becomes true; later calls throw too.
  void all_gather(const void* own, void* all, size_t bytes, const std::atomic<bool>* cancel = nullptr);
  void broadcast(void* data, size_t bytes, size_t root = 0, const std::atomic<bool>* cancel = nullptr);
  void send(const void* data, size_t bytes, size_t to, const std::atomic<bool>* cancel = nullptr);
  void receive(void* data, size_t bytes, size_t from, const std::atomic<bool>* cancel = nullptr);
  // The sum over the ranks for each, added up in their order, so that all have the same bits: MPI's own all-reduce
  // promises no order.
  void sum(std::span<float> values, const std::atomic<bool>* cancel = nullptr);
  void sum(std::span<double> values, const std::atomic<bool>* cancel = nullptr);

 private:
  using Clock = std::chrono::steady_clock;
  struct Beat {
    uint64_t is_leaving;
  };
  struct Peer {
    std::string host;
    int process = 0;
    Beat sent{}, received{};
    Request sends = nullptr, receives = nullptr;
    bool is_sending = false;
    Clock::time_point last{};               // beat
    std::optional<Clock::time_point> left;  // it leaves
  };

  Ranks();
  void exchange_names();
  void beat();
  void exchange_beats();
  void leave();
  void check(int code, const char* call) const;
  // start(request), in pieces that MPI can count, then waits.
  template <class Start>
  void wait_for(const char* call, const std::atomic<bool>* cancel, const Start& start);
  void throw_if_lost(Clock::time_point now) const;
  template <class T>
  void sum_values(std::span<T> values, const std::atomic<bool>* cancel);

  const Library& mpi_;
  const std::chrono::milliseconds patience_;
  Handle data_ = nullptr, beats_ = nullptr;  // communicators
  size_t rank_ = 0;
  std::vector<Peer> peers_;   // by rank
  mutable std::mutex mutex_;  // around calls of MPI, and of what the two threads share
  std::condition_variable ends_changed_;
  bool is_leaving_ = false, has_failed_ = false, ends_ = false;
  std::string failure_;
  std::thread thread_;
};

}  // namespace gabbro::mpi
