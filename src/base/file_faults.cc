#include "src/base/file_faults.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <string_view>

#include "src/base/error.h"

namespace gabbro {

// The handler reads a slot in any thread, so that all of its fields are atomic.
struct FaultSlot {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0}, end{0};  // end 0: the handler does not look at it
  std::atomic<const char*> name{nullptr};
  std::atomic<int> descriptor{-1};
  std::atomic<int64_t> size{0}, seconds{0}, nanoseconds{0};
  std::atomic<bool> had_fault{false};
};

namespace {

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

// A signal handler can reach nothing but globals. A model has some hundred files at most.
std::array<FaultSlot, 4096> g_slots;
std::atomic<FileFault> g_choice{FileFault::kThrow};
struct sigaction g_before;  // the handler that was there

FaultSlot* find_slot(uintptr_t address) {
  for (FaultSlot& slot : g_slots) {
    if (address < slot.end && address >= slot.begin) return &slot;
  }
  return nullptr;
}

// A line of text: formatting libraries may not be called in a handler.
class Line {
 public:
  Line& add(std::string_view text) {
    for (const char c : text) put(c);
    return *this;
  }
  Line& add(uint64_t number) {
    char digits[20];
    int count = 0;
    do {
      digits[count++] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    while (count > 0) put(digits[--count]);
    return *this;
  }
  // Control characters of a name stay away from the terminal.
  Line& add_name(const char* name) {
    for (; *name != '\0'; ++name) put(static_cast<unsigned char>(*name) < ' ' || *name == '\x7f' ? '?' : *name);
    return *this;
  }
  void write_to(int descriptor) const {
    for (size_t done = 0; done < size_;) {
      const ssize_t put = ::write(descriptor, text_.data() + done, size_ - done);
      if (put <= 0 && errno != EINTR) return;
      if (put > 0) done += static_cast<size_t>(put);
    }
  }

 private:
  void put(char c) {
    if (size_ < text_.size()) text_[size_++] = c;
  }

  std::array<char, 8192> text_;  // paths have 4096 bytes at most
  size_t size_ = 0;
};

[[noreturn]] void leave(const FaultSlot& slot, uintptr_t address) {
  static std::atomic_flag leaving;  // other threads meet the same fault
  while (leaving.test_and_set()) ::pause();
  Line line;
  if (::isatty(STDERR_FILENO) == 1) line.add("\n");  // a bar of progress, or the answer so far
  line.add("gabbro: error: ").add_name(slot.name).add(": the file ");
  FileStamp now;
  const bool known = read_stamp(slot.descriptor, &now);
  if (known && now.size != slot.size) {
    line.add("had ").add(static_cast<uint64_t>(slot.size.load())).add(" bytes when it was loaded, and has ");
    line.add(static_cast<uint64_t>(now.size)).add(" now: it was cut while it was used\n");
  } else if (known && (now.seconds != slot.seconds || now.nanoseconds != slot.nanoseconds)) {
    line.add("was written to while it was used\n");
  } else {
    line.add("cannot be read at byte ").add(uint64_t{address - slot.begin}).add(": Input/output error\n");
  }
  line.write_to(STDERR_FILENO);
  ::_exit(static_cast<int>(ErrorCode::kFailed));
}

// Zeros in place of the page, or of all from it on where the file ends before it. False where there is no memory.
bool replace_by_zeros(FaultSlot& slot, uintptr_t address) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = address / page * page;
  FileStamp now;
  const bool ends = read_stamp(slot.descriptor, &now) && static_cast<uintptr_t>(now.size) <= first - slot.begin;
  const uintptr_t last = ends ? (slot.end + page - 1) / page * page : first + page;
  slot.had_fault = true;
  return ::mmap(reinterpret_cast<void*>(first), last - first, PROT_READ,  // NOLINT(performance-no-int-to-ptr)
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((g_before.sa_flags & SA_SIGINFO) != 0) return g_before.sa_sigaction(signal, info, context);
  const bool sent = info->si_code <= 0;  // by kill, not by an access
  if (g_before.sa_handler == SIG_IGN && sent) return;
  if (g_before.sa_handler != SIG_DFL && g_before.sa_handler != SIG_IGN) return g_before.sa_handler(signal);
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  if (sent) ::raise(signal);  // else the access is repeated
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  FaultSlot* const slot = info->si_code > 0 ? find_slot(address) : nullptr;
  if (slot != nullptr && g_choice == FileFault::kExit) leave(*slot, address);
  if (slot == nullptr || !replace_by_zeros(*slot, address)) pass_on(signal, info, context);
  errno = error;
}

}  // namespace

void handle_file_faults(FileFault choice) {
  static std::once_flag installed;
  g_choice = choice;
  std::call_once(installed, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, nullptr, &g_before);
    ::sigaction(SIGBUS, &action, nullptr);
  });
}

bool read_stamp(int descriptor, FileStamp* stamp) {
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) return false;
  *stamp = {.size = info.st_size, .seconds = info.st_mtim.tv_sec, .nanoseconds = info.st_mtim.tv_nsec};
  return true;
}

FaultGuard::FaultGuard(const Range& range) : slot_(nullptr) {
  for (FaultSlot& slot : g_slots) {
    if (slot.taken.exchange(true)) continue;
    slot_ = &slot;
    break;
  }
  if (slot_ == nullptr) return;
  const auto begin = reinterpret_cast<uintptr_t>(range.begin);
  slot_->begin = begin;
  slot_->name = range.name;
  slot_->descriptor = range.descriptor;
  slot_->size = range.stamp.size;
  slot_->seconds = range.stamp.seconds;
  slot_->nanoseconds = range.stamp.nanoseconds;
  slot_->had_fault = false;
  slot_->end = begin + range.size;
}

FaultGuard::~FaultGuard() {
  if (slot_ == nullptr) return;
  slot_->end = 0;
  slot_->taken = false;
}

bool FaultGuard::had_fault() const { return slot_ != nullptr && slot_->had_fault; }

std::string mapped_file_at(const void* address) {
  const FaultSlot* const slot = find_slot(reinterpret_cast<uintptr_t>(address));
  return slot != nullptr ? slot->name.load() : "";
}

}  // namespace gabbro
