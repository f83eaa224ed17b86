#include "src/base/mpi/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "src/base/error.h"
#include "src/base/split_patience.h"

namespace gabbro::mpi {
namespace {

using std::chrono::milliseconds;

// With the 1.5 s that mpirun takes to end the others, a stopped rank ends the job within 5 s.
constexpr milliseconds kPatience{3000};
constexpr milliseconds kBeatInterval{200};
// Between a rank's last words and its leaving, what it sent may still be on the way.
constexpr milliseconds kGrace{1000};
constexpr size_t kPieceBytes = size_t{1} << 30;  // MPI counts with int
constexpr int kTag = 1;
constexpr size_t kSmallValues = 4096;  // up to here each rank adds up all values, in one exchange

struct Name {
  std::array<char, 64> host;
  int process;
};

std::atomic<bool> joined{false};

}  // namespace

Ranks& Ranks::shared() {
  static Ranks& ranks = *new Ranks;
  return ranks;
}

bool Ranks::are_joined() { return joined; }

Ranks::Ranks() : mpi_(library()), patience_(split_patience(kPatience)) {
  int is_initialized = 0, provided = kThreadSerialized, rank = 0, size = 0;
  check(mpi_.initialized(&is_initialized), "MPI_Initialized");
  if (is_initialized == 0) check(mpi_.init_thread(nullptr, nullptr, kThreadSerialized, &provided), "MPI_Init_thread");
  if (provided < kThreadSerialized) throw failed("{} does not allow calls from two threads", mpi_.version);
  check(mpi_.comm_set_errhandler(mpi_.world, mpi_.errors_return), "MPI_Comm_set_errhandler");
  check(mpi_.comm_dup(mpi_.world, &data_), "MPI_Comm_dup");
  check(mpi_.comm_dup(mpi_.world, &beats_), "MPI_Comm_dup");
  check(mpi_.comm_rank(mpi_.world, &rank), "MPI_Comm_rank");
  check(mpi_.comm_size(mpi_.world, &size), "MPI_Comm_size");
  rank_ = static_cast<size_t>(rank);
  peers_.resize(static_cast<size_t>(size));
  exchange_names();
  if (size > 1) thread_ = std::thread([this] { beat(); });
  joined = true;
  std::atexit([] { Ranks::shared().leave(); });
}

void Ranks::check(int code, const char* call) const {
  if (code == kSuccess) return;
  std::array<char, 512> text{};
  int length = 0;
  mpi_.error_string(code, text.data(), &length);
  throw failed("{}: {}", call, text.data());
}

void Ranks::exchange_names() {
  Name own{};
  ::gethostname(own.host.data(), own.host.size() - 1);
  own.process = ::getpid();
  std::vector<Name> all(size());
  const Clock::time_point now = Clock::now();
  for (Peer& peer : peers_) peer.last = now;
  all_gather(&own, all.data(), sizeof(Name));
  for (size_t i = 0; i < size(); ++i) {
    peers_[i].host = all[i].host.data();
    peers_[i].process = all[i].process;
    peers_[i].last = Clock::now();
  }
}

std::string Ranks::name_of(size_t rank) const {
  return fmt::format("rank {} (process {} on {})", rank, peers_[rank].process, peers_[rank].host);
}

void Ranks::exchange_beats() {
  const auto self = static_cast<int>(rank_);
  for (int i = 0; i < static_cast<int>(size()); ++i) {
    if (i == self) continue;
    Peer& peer = peers_[static_cast<size_t>(i)];
    int done = 0;
    if (peer.is_sending && mpi_.test(&peer.sends, &done, nullptr) == kSuccess && done != 0) peer.is_sending = false;
    if (!peer.is_sending) {
      peer.sent.is_leaving = is_leaving_ ? 1 : 0;
      peer.is_sending = mpi_.isend(&peer.sent, sizeof(Beat), mpi_.byte, i, kTag, beats_, &peer.sends) == kSuccess;
    }
    for (int most = 0; most < 64; ++most) {
      if (peer.receives == nullptr &&
          mpi_.irecv(&peer.received, sizeof(Beat), mpi_.byte, i, kTag, beats_, &peer.receives) != kSuccess)
        break;
      done = 0;
      if (mpi_.test(&peer.receives, &done, nullptr) != kSuccess || done == 0) break;
      peer.receives = nullptr;
      peer.last = Clock::now();
      if (peer.received.is_leaving != 0 && !peer.left) peer.left = peer.last;
    }
  }
}

void Ranks::beat() {
  std::unique_lock lock(mutex_);
  Clock::time_point before = Clock::now();
  while (!ends_) {
    // This process itself may have been stopped: then the others' beats wait in the queue.
    const Clock::time_point now = Clock::now();
    if (now - before > patience_ / 2)
      for (Peer& peer : peers_) peer.last = now;
    before = now;
    // After a failure a request may be open whose memory is gone.
    if (!has_failed_) exchange_beats();
    ends_changed_.wait_for(lock, kBeatInterval);
  }
}

void Ranks::throw_if_lost(Clock::time_point now) const {
  if (has_failed_) throw DeviceLost(failure_);
  for (size_t i = 0; i < size(); ++i) {
    if (i == rank_) continue;
    const Peer& peer = peers_[i];
    if (peer.left && !is_leaving_ && now - *peer.left > kGrace)
      throw failed("{} has ended, and this one waits for a result of it", name_of(i));
    if (thread_.joinable() && !peer.left && now - peer.last > patience_)
      throw DeviceLost(fmt::format("{} has not answered for {:.1f} s", name_of(i),
                                   std::chrono::duration<double>(now - peer.last).count()));
  }
}

template <class Start>
void Ranks::wait_for(const char* call, const std::atomic<bool>* cancel, const Start& start) {
  constexpr int kSpins = 2000;  // some 0.2 ms: an exchange between processes of a host takes less
  Request request = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (has_failed_) throw DeviceLost(failure_);
    check(start(&request), call);
  }
  for (int i = 0;; ++i) {
    {
      const std::lock_guard lock(mutex_);
      int done = 0;
      check(mpi_.test(&request, &done, nullptr), call);
      if (done != 0) return;
      try {
        if (cancel != nullptr && *cancel) throw Error(ErrorCode::kInterrupted, "interrupted");
        if (i % 64 == 0) throw_if_lost(Clock::now());
      } catch (const Error& error) {
        has_failed_ = true;  // the ranks are no longer at the same call
        failure_ = error.what();
        throw;
      }
    }
    if (i < kSpins) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

void Ranks::all_gather(const void* own, void* all, size_t bytes, const std::atomic<bool>* cancel) {
  if (bytes > kPieceBytes) throw failed("MPI_Iallgather: {} bytes of each rank are too many", bytes);
  const auto count = static_cast<int>(bytes);
  wait_for("MPI_Iallgather", cancel, [&](Request* request) {
    return mpi_.iallgather(own, count, mpi_.byte, all, count, mpi_.byte, data_, request);
  });
}

void Ranks::broadcast(void* data, size_t bytes, size_t root, const std::atomic<bool>* cancel) {
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    const auto count = static_cast<int>(std::min(kPieceBytes, bytes - at));
    wait_for("MPI_Ibcast", cancel, [&](Request* request) {
      return mpi_.ibcast(static_cast<std::byte*>(data) + at, count, mpi_.byte, static_cast<int>(root), data_, request);
    });
  }
}

void Ranks::send(const void* data, size_t bytes, size_t to, const std::atomic<bool>* cancel) {
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    const auto count = static_cast<int>(std::min(kPieceBytes, bytes - at));
    wait_for("MPI_Isend", cancel, [&](Request* request) {
      return mpi_.isend(static_cast<const std::byte*>(data) + at, count, mpi_.byte, static_cast<int>(to), kTag, data_,
                        request);
    });
  }
}

void Ranks::receive(void* data, size_t bytes, size_t from, const std::atomic<bool>* cancel) {
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    const auto count = static_cast<int>(std::min(kPieceBytes, bytes - at));
    wait_for("MPI_Irecv", cancel, [&](Request* request) {
      return mpi_.irecv(static_cast<std::byte*>(data) + at, count, mpi_.byte, static_cast<int>(from), kTag, data_,
                        request);
    });
  }
}

// Large sums in two steps: each rank adds up a slice, and gives it to all.
template <class T>
void Ranks::sum_values(std::span<T> values, const std::atomic<bool>* cancel) {
  if (size() == 1 || values.empty()) return;
  const size_t most = kPieceBytes / sizeof(T);
  for (; values.size() > most; values = values.subspan(most)) sum_values(values.first(most), cancel);
  const bool is_small = values.size() <= kSmallValues;
  const size_t slice = is_small ? values.size() : (values.size() + size() - 1) / size();
  std::vector<T> addends(slice * size());
  if (is_small) {
    all_gather(values.data(), addends.data(), slice * sizeof(T), cancel);
  } else {
    std::vector<T> own(slice * size());
    std::ranges::copy(values, own.begin());
    const auto count = static_cast<int>(slice * sizeof(T));
    wait_for("MPI_Ialltoall", cancel, [&](Request* request) {
      return mpi_.ialltoall(own.data(), count, mpi_.byte, addends.data(), count, mpi_.byte, data_, request);
    });
  }
  for (size_t rank = 1; rank < size(); ++rank)
    for (size_t i = 0; i < slice; ++i) addends[i] += addends[rank * slice + i];
  if (is_small) {
    std::ranges::copy_n(addends.begin(), static_cast<int64_t>(slice), values.begin());
    return;
  }
  std::vector<T> all(slice * size());
  all_gather(addends.data(), all.data(), slice * sizeof(T), cancel);
  std::ranges::copy_n(all.begin(), std::ssize(values), values.begin());
}

void Ranks::sum(std::span<float> values, const std::atomic<bool>* cancel) { sum_values(values, cancel); }
void Ranks::sum(std::span<double> values, const std::atomic<bool>* cancel) { sum_values(values, cancel); }

// Without MPI_Finalize after an error: mpirun then ends the others, which may wait for this process.
void Ranks::leave() {
  bool has_failed = false;
  {
    const std::lock_guard lock(mutex_);
    is_leaving_ = true;
    has_failed = has_failed_;
  }
  if (!has_failed) {
    try {
      wait_for("MPI_Ibarrier", nullptr, [&](Request* request) { return mpi_.ibarrier(data_, request); });
    } catch (const Error&) {
      has_failed = true;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ends_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (has_failed) return;
  for (Peer& peer : peers_) {
    if (peer.receives == nullptr) continue;
    mpi_.cancel(&peer.receives);
    mpi_.request_free(&peer.receives);
  }
  mpi_.finalize();
}

}  // namespace gabbro::mpi
