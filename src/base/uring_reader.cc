// io_uring by its system calls: one read an entry, completions polled for by the ring's descriptor.
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include "src/base/async_reader.h"
#include "src/base/error.h"

namespace gabbro {
namespace {

int uring_setup(unsigned entries, io_uring_params* params) {
  return static_cast<int>(::syscall(__NR_io_uring_setup, entries, params));
}

int uring_enter(int ring, unsigned submit) {
  return static_cast<int>(::syscall(__NR_io_uring_enter, ring, submit, 0, 0, nullptr, 0));
}

// A part of the ring that is shared with the kernel.
class SharedMemory {
 public:
  SharedMemory(int ring, size_t bytes, uint64_t offset) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, static_cast<off_t>(offset));
    if (data_ == MAP_FAILED) throw failed("io_uring: cannot map its queues: {}", std::strerror(errno));
  }
  ~SharedMemory() { ::munmap(data_, bytes_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  template <class T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + offset);
  }

 private:
  void* data_;
  size_t bytes_;
};

struct RingDescriptor {
  explicit RingDescriptor(int descriptor) : fd(descriptor) {}
  ~RingDescriptor() { ::close(fd); }
  RingDescriptor(const RingDescriptor&) = delete;
  RingDescriptor& operator=(const RingDescriptor&) = delete;
  int fd;
};

class UringReader : public AsyncReader {
 public:
  UringReader(int fd, const io_uring_params& p)
      : ring_(fd),
        submissions_(fd, p.sq_off.array + p.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING),
        completions_(fd, p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING),
        entries_(fd, p.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES),
        params_(p) {}

  ~UringReader() override {
    std::vector<FinishedRead> ignored;
    while (under_way_ > 0) wait(ignored, std::chrono::milliseconds(100));
  }

  void submit(const FileRead& read) override {
    auto* const tail = submissions_.at<uint32_t>(params_.sq_off.tail);
    const uint32_t slot = *tail & *submissions_.at<uint32_t>(params_.sq_off.ring_mask);
    auto& entry = entries_.at<io_uring_sqe>(0)[slot];
    std::memset(&entry, 0, sizeof entry);
    entry.opcode = IORING_OP_READ;
    // Workers of the kernel submit reads at the same time: pinning megabytes of pages for each in turn leaves
    // the disk idle, and a full queue would block this thread.
    entry.flags = IOSQE_ASYNC;
    entry.fd = read.file;
    entry.off = read.offset;
    entry.addr = reinterpret_cast<uint64_t>(read.target);
    entry.len = static_cast<uint32_t>(read.bytes);
    entry.user_data = read.tag;
    submissions_.at<uint32_t>(params_.sq_off.array)[slot] = slot;
    std::atomic_ref(*tail).store(*tail + 1, std::memory_order_release);
    int result = 0;
    do {
      result = uring_enter(ring_.fd, 1);
    } while (result < 0 && (errno == EINTR || errno == EAGAIN || errno == EBUSY));
    if (result < 0) throw failed("io_uring: {}", std::strerror(errno));
    ++under_way_;
  }

  void wait(std::vector<FinishedRead>& finished, std::chrono::milliseconds timeout) override {
    if (take(finished) || under_way_ == 0) return;
    pollfd event = {ring_.fd, POLLIN, 0};
    ::poll(&event, 1, static_cast<int>(timeout.count()));
    take(finished);
  }

  const char* name() const override { return "io_uring"; }

 private:
  bool take(std::vector<FinishedRead>& finished) {
    auto* const head = completions_.at<uint32_t>(params_.cq_off.head);
    const uint32_t mask = *completions_.at<uint32_t>(params_.cq_off.ring_mask);
    const uint32_t tail =
        std::atomic_ref(*completions_.at<uint32_t>(params_.cq_off.tail)).load(std::memory_order_acquire);
    uint32_t at = *head;
    for (; at != tail; ++at) {
      const auto& entry = completions_.at<io_uring_cqe>(params_.cq_off.cqes)[at & mask];
      finished.push_back({entry.user_data, entry.res});
      --under_way_;
    }
    const bool any = at != *head;
    std::atomic_ref(*head).store(at, std::memory_order_release);
    return any;
  }

  RingDescriptor ring_;
  SharedMemory submissions_, completions_, entries_;
  io_uring_params params_;
  int under_way_ = 0;
};

}  // namespace

std::unique_ptr<AsyncReader> make_uring_reader(int depth, std::string* reason) {
  io_uring_params params = {};
  const int fd = uring_setup(std::bit_ceil(static_cast<unsigned>(depth)), &params);
  if (fd < 0) {
    *reason = std::strerror(errno);
    return nullptr;
  }
  if ((params.features & IORING_FEAT_RW_CUR_POS) == 0) {  // Linux 5.6, which has IORING_OP_READ
    ::close(fd);
    *reason = "the kernel is older than 5.6";
    return nullptr;
  }
  return std::make_unique<UringReader>(fd, params);
}

}  // namespace gabbro
