#include "backends/gpu/sim/grid.h"

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <boost/context/detail/fcontext.hpp>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/sim/fault_handler.h"
#include "backends/gpu/sim/memory.h"
#include "backends/gpu/sim/stacks.h"
#include "backends/gpu/sim/turns.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace gabbro::gpu::sim {
namespace {

namespace context = boost::context::detail;

constexpr int kPoison = 0xa5;

enum class Waiting : u8 { kNothing, kBarrier, kExchange, kEnded };

struct Thread {
  context::fcontext_t context = nullptr;
  Waiting waiting = Waiting::kNothing;
  Place place{};
  u32 exchanges = 0;  // so far: the parity says which half of the wave's slots is in use
};

struct Wave {
  u32 arrived = 0;
  Place place{};          // of the first lane that arrived
  u64 slots[2][64] = {};  // values given, by parity
};

std::string place_name(Place place) {
  const char* slash = std::strrchr(place.file, '/');
  return fmt::format("{}:{}", slash == nullptr ? place.file : slash + 1, place.line);
}

// One block in progress on this thread of the host. The thread sanitizer has one call stack for it and the threads of
// blocks. Calls that never return, as their stack is left behind, would fill that: it does not see these functions.
class Block {
 public:
  BlockState state;
  u32 current = 0;
  const Registration* kernel = nullptr;
  const void* args = nullptr;
  std::mt19937_64* random = nullptr;  // chooses the order of the threads, if not null
  Turns* turns = nullptr;             // of blocks, if not null
  size_t turn = 0;                    // this block's
  std::string error;

  // False when the block was stopped; `error` says why.
  bool run(Stacks& stacks);

  void wait_at_barrier(Place place) {
    Thread& thread = threads_[current];
    thread.waiting = Waiting::kBarrier;
    thread.place = place;
    if (++at_barrier_ == state.threads) {
      at_barrier_ = 0;
      for (Thread& other : threads_) other.waiting = Waiting::kNothing;
      return;
    }
    yield();
  }

  const u64* exchange(u64 value, Place place) {
    Thread& thread = threads_[current];
    const u32 wave_size = kernel->wave, first = current / wave_size * wave_size;
    Wave& wave = waves_[current / wave_size];
    u64* slots = wave.slots[thread.exchanges++ % 2];
    slots[current - first] = value;
    if (wave.arrived == 0) {
      wave.place = place;
    } else if (wave.place.line != place.line || std::strcmp(wave.place.file, place.file) != 0) {
      stop(describe_divergence(place, wave.place));
    }
    thread.place = place;
    if (++wave.arrived == std::min(wave_size, state.threads - first)) {
      wave.arrived = 0;
      for (u32 t = first; t < std::min(first + wave_size, state.threads); ++t) threads_[t].waiting = Waiting::kNothing;
      return slots;
    }
    thread.waiting = Waiting::kExchange;
    yield();
    return slots;
  }

  void poison_shared(void* memory, size_t bytes) {
    if (std::ranges::find(poisoned_, memory) != poisoned_.end()) return;
    poisoned_.push_back(memory);
    std::memset(memory, kPoison, bytes);
  }

  // Ends the launch; called on a thread's stack, which is left behind.
  [[noreturn]] __attribute__((no_sanitize("thread"), noinline)) void stop(std::string message) {
    if (error.empty()) error = std::move(message);
    for (;;) yield();
  }

  // The first that runs on a thread's stack.
  __attribute__((no_sanitize("thread"), noinline)) void start(context::fcontext_t scheduler) {
    scheduler_ = scheduler;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &host_stack_, &host_stack_bytes_);
#endif
    kernel->function(args);
    threads_[current].waiting = Waiting::kEnded;
    ++ended_;
    for (;;) yield();
  }

 private:
  __attribute__((no_sanitize("thread"), noinline)) void yield();
  void resume(u32 thread);
  std::string describe_deadlock() const;
  std::string describe_divergence(Place here, Place there) const;

  std::vector<Thread> threads_;
  std::vector<Wave> waves_;
  std::vector<const void*> poisoned_;  // shared memory of this block
  context::fcontext_t scheduler_ = nullptr;
  u32 at_barrier_ = 0;
  u32 ended_ = 0;
  Stacks* stacks_ = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  const void* host_stack_ = nullptr;
  size_t host_stack_bytes_ = 0;
#endif
};

thread_local Block* current_block_ptr = nullptr;

__attribute__((no_sanitize("thread"), noinline)) void entry(context::transfer_t from) {
  auto* block = static_cast<Block*>(from.data);
  block->start(from.fctx);
}

void Block::yield() {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, host_stack_, host_stack_bytes_);
#endif
  scheduler_ = context::jump_fcontext(scheduler_, this).fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, &host_stack_, &host_stack_bytes_);
#endif
}

void Block::resume(u32 thread) {
  current = thread;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stacks_->stack(thread), kStackBytes);
#endif
  threads_[thread].context = context::jump_fcontext(threads_[thread].context, this).fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

bool Block::run(Stacks& stacks) {
  stacks_ = &stacks;
  threads_.assign(state.threads, {});
  waves_.assign((state.threads + kernel->wave - 1) / kernel->wave, {});
  poisoned_.clear();
  at_barrier_ = ended_ = 0;
  for (u32 t = 0; t < state.threads; ++t) {
    auto* top = static_cast<char*>(stacks.stack(t)) + kStackBytes;
    forget_frames(top - kStackBytes);
    threads_[t].context = context::make_fcontext(top, kStackBytes - kPageBytes, entry);
  }
  while (ended_ < state.threads) {
    bool moved = false;
    const u64 choice = random == nullptr ? 0 : (*random)();
    const u32 first = static_cast<u32>(choice >> 1) % state.threads;
    for (u32 i = 0; i < state.threads; ++i) {
      const u32 t = ((choice & 1) == 0 ? first + i : first + state.threads - i) % state.threads;
      if (threads_[t].waiting != Waiting::kNothing) continue;
      moved = true;
      resume(t);
      if (!error.empty()) return false;
      if (turns != nullptr) turns->step(turn);
    }
    if (!moved) {
      error = describe_deadlock();
      return false;
    }
  }
  return true;
}

// Apart from what stops the thread, whose own strings would be left behind with its stack.
std::string Block::describe_divergence(Place here, Place there) const {
  return fmt::format("thread {} is in the wave operation at {} while another lane of its wave is in the one at {}",
                     current, place_name(here), place_name(there));
}

std::string Block::describe_deadlock() const {
  std::map<std::string, u32> groups;
  for (const Thread& thread : threads_) {
    const char* what = thread.waiting == Waiting::kBarrier ? "at the barrier at " : "in the wave operation at ";
    ++groups[thread.waiting == Waiting::kEnded ? "ended" : what + place_name(thread.place)];
  }
  std::string text = "the block cannot go on:";
  for (const auto& [what, count] : groups)
    text += fmt::format(" {} threads {}{}", count, what, what == groups.rbegin()->first ? "" : ",");
  return text;
}

// A fault in a kernel becomes a call of `stop` on the stack of the thread that caused it; any other is not ours.
thread_local const void* fault_address = nullptr;
struct sigaction previous_action;

[[noreturn]] void stop_at_fault() { current_block_ptr->stop(describe_address(fault_address)); }

void on_fault(int signal, siginfo_t* info, void* machine) {
  if (current_block_ptr == nullptr) {
    if (take_host_fault(info->si_addr)) return;      // and the instruction is done again
    ::sigaction(signal, &previous_action, nullptr);  // and the instruction faults once more
    return;
  }
  fault_address = info->si_addr;
  auto& registers = static_cast<ucontext_t*>(machine)->uc_mcontext.gregs;
  // As a call would leave the stack: 8 below a multiple of 16, and clear of the red zone.
  registers[REG_RSP] = (registers[REG_RSP] - 256) / 16 * 16 - 8;
  registers[REG_RIP] = reinterpret_cast<greg_t>(&stop_at_fault);
}

std::map<std::pair<std::string, u32>, const Registration*>& registrations() {
  static std::map<std::pair<std::string, u32>, const Registration*> all;
  return all;
}

}  // namespace

Registration::Registration(const char* kernel, u32 kernel_wave, u32 block_threads, size_t arguments,
                           void (*entry_point)(const void* args), const char* source)
    : name(kernel),
      wave(kernel_wave),
      threads(block_threads),
      arg_bytes(arguments),
      function(entry_point),
      file(source) {
  registrations()[{name, wave}] = this;
}

const Registration* find_kernel(const std::string& name, u32 wave) {
  const auto found = registrations().find({name, wave});
  return found == registrations().end() ? nullptr : found->second;
}

bool has_kernels_of(std::string_view source) {
  return std::ranges::any_of(registrations(),
                             [&](const auto& one) { return std::string_view(one.second->file).ends_with(source); });
}

void catch_faults() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigaction(SIGSEGV, &action, &previous_action);
  });
}

bool poisons_shared = false;
void poison_shared(void* memory, size_t bytes) { current_block_ptr->poison_shared(memory, bytes); }

u32 current_thread() { return current_block_ptr->current; }
const BlockState& current_block() { return current_block_ptr->state; }
void barrier(Place place) { current_block_ptr->wait_at_barrier(place); }
const u64* exchange(u64 value, Place place) { return current_block_ptr->exchange(value, place); }

namespace {

// A permutation of [0, count).
class Shuffle {
 public:
  Shuffle(u64 count, u64 seed) : count_(count) {
    std::mt19937_64 random(seed);
    if (seed == 0 || count < 2) return;
    offset_ = random() % count;
    do {
      factor_ = 1 + random() % 65535;
    } while (std::gcd(factor_, count) != 1);
  }
  u64 operator()(u64 index) const { return (index * factor_ + offset_) % count_; }

 private:
  u64 count_, factor_ = 1, offset_ = 0;
};

}  // namespace

std::string run_grid(const Registration& kernel, Dim grid, const void* args, const std::atomic<bool>* cancel,
                     const BlockOrder& order) {
  catch_faults();
  const u64 blocks = u64{grid.x} * grid.y * grid.z;
  const Shuffle shuffle(blocks, order.seed);
  const u64 cores = std::max(1u, std::thread::hardware_concurrency());
  const u64 hosts = order.resident > 0 ? std::min<u64>(blocks, order.resident) : std::clamp<u64>(blocks / 4, 1, cores);
  std::unique_ptr<Turns> turns;
  if (order.resident > 0) turns = std::make_unique<Turns>(order.seed, hosts);
  std::atomic<u64> next{0};
  std::mutex mutex;
  std::string error;
  const auto work = [&](size_t host) {
    thread_local Stacks stacks;
    std::mt19937_64 random(order.seed + host);
    Block block;
    block.kernel = &kernel;
    block.args = args;
    block.random = order.seed == 0 ? nullptr : &random;
    block.turns = turns.get();
    block.turn = host;
    block.state.grid = grid;
    block.state.threads = kernel.threads;
    current_block_ptr = &block;
    if (turns != nullptr) turns->begin(host);
    for (u64 number; (number = next.fetch_add(1)) < blocks;) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) break;
      const u64 index = shuffle(number);
      block.state.index = {static_cast<u32>(index % grid.x), static_cast<u32>(index / grid.x % grid.y),
                           static_cast<u32>(index / grid.x / grid.y)};
      if (block.run(stacks)) continue;
      next = blocks;
      const std::lock_guard lock(mutex);
      if (error.empty()) {
        const Dim at = block.state.index;
        error = fmt::format("kernel {}, block ({}, {}, {}): {}", kernel.name, at.x, at.y, at.z, block.error);
      }
    }
    current_block_ptr = nullptr;
    if (turns != nullptr) turns->end(host);
  };
#if defined(__SANITIZE_THREAD__)
  constexpr u64 kFirstHelper = 0;  // from the first: calls that a stopped launch leaves behind end with their threads
#else
  constexpr u64 kFirstHelper = 1;
#endif
  std::vector<std::thread> helpers;
  for (u64 i = kFirstHelper; i < hosts; ++i) helpers.emplace_back(work, i);
  if (kFirstHelper == 1) work(0);
  for (std::thread& helper : helpers) helper.join();
  return error;
}

}  // namespace gabbro::gpu::sim
