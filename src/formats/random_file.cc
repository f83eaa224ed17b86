#include "src/formats/random_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/base/round_up.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/formats/quant/random_blocks.h"

namespace gabbro::gguf {
namespace {

constexpr size_t kPage = kPageAlignment;
constexpr size_t kRunBytes = size_t{16} << 20;  // no cache keeps it, and the 140 GB of a 70B model are 8,400 mappings

Error cannot(const std::string& what) { return failed("cannot {}: {}", what, std::strerror(errno)); }

// Address space for a whole file, with nothing behind it at first.
class Space {
 public:
  explicit Space(size_t size) : size_(size) {
    memory_ = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) throw cannot(fmt::format("reserve {} bytes of address space", size));
  }
  ~Space() {
    if (memory_ != nullptr) ::munmap(memory_, size_);
  }
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  std::byte* at(size_t offset) const { return static_cast<std::byte*>(memory_) + offset; }
  std::unique_ptr<MappedFile> give_away(const std::string& name) {
    return std::make_unique<MappedFile>(name, std::exchange(memory_, nullptr), size_);
  }

 private:
  void* memory_;
  size_t size_;
};

// Pages without a name, which can be mapped in many places.
class Pages {
 public:
  explicit Pages(size_t size) : size_(round_up(size, kPage)), descriptor_(::memfd_create("gabbro", MFD_CLOEXEC)) {
    if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) {
      const Error error = cannot(fmt::format("get {} bytes of shared memory", size_));
      close();
      throw error;
    }
  }
  ~Pages() { close(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  size_t size() const { return size_; }

  // Calls write(bytes) once.
  template <class Write>
  void fill(const Write& write) {
    void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (memory == MAP_FAILED) throw cannot("map shared memory");
    write(std::span(static_cast<std::byte*>(memory), size_));
    ::munmap(memory, size_);
  }

  void map(size_t offset, std::byte* target, size_t size) const {
    void* result = ::mmap(target, size, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor_, static_cast<off_t>(offset));
    if (result == MAP_FAILED) throw cannot("map shared memory");
  }

 private:
  void close() const {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  size_t size_;
  int descriptor_;
};

// The random blocks of a format: mapped from any page that begins a block, they go round.
class RandomRun {
 public:
  RandomRun(DType dtype, float deviation, uint64_t seed)
      : step_(std::lcm(kPage, size_t{dtype_info(dtype).block_bytes})), pages_(kRunBytes / step_ * step_) {
    pages_.fill([&](std::span<std::byte> bytes) { fill_random(dtype, bytes, deviation, seed); });
  }

  // `number` chooses where the tensor begins.
  void map(size_t number, std::byte* target, size_t size) const {
    size_t offset = number * 37 % (pages_.size() / step_) * step_;
    for (size_t done = 0; done < size;) {
      const size_t part = std::min(round_up(size - done, kPage), pages_.size() - offset);
      pages_.map(offset, target + done, part);
      done += part;
      offset = 0;
    }
  }

 private:
  size_t step_;  // whole pages and whole blocks
  Pages pages_;
};

// The header and the data that the writer has.
void map_bytes(std::span<const std::byte> bytes, std::byte* target) {
  Pages pages(bytes.size());
  pages.fill([&](std::span<std::byte> memory) { std::ranges::copy(bytes, memory.begin()); });
  pages.map(0, target, pages.size());
}

}  // namespace

File random_file(const std::string& name, const Writer& writer,
                 const std::function<float(const std::string& tensor)>& deviation_of, uint64_t seed) {
  if (writer.alignment() != kPageAlignment) throw bad_input("{}: its tensors are not aligned to pages", name);
  const std::string header = writer.header();
  size_t size = header.size();
  for (const Writer::Tensor& tensor : writer.tensors()) size += round_up(tensor.size, kPage);
  Space space(size);
  map_bytes(std::as_bytes(std::span(header)), space.at(0));
  std::map<std::pair<DType, float>, RandomRun> runs;
  size_t offset = header.size();
  for (size_t i = 0; i < writer.tensors().size(); ++i) {
    const Writer::Tensor& tensor = writer.tensors()[i];
    if (!tensor.data.empty()) {
      map_bytes(tensor.data, space.at(offset));
    } else {
      const std::optional<DType> dtype = find_ggml_type(tensor.type)->dtype;
      if (!dtype) throw bad_input("{}: there are no random weights of that format", quote(tensor.name));
      const float deviation = deviation_of(tensor.name);
      const uint64_t of_format = seed + static_cast<uint64_t>(*dtype);
      const auto run = runs.try_emplace({*dtype, deviation}, *dtype, deviation, of_format).first;
      run->second.map(i, space.at(offset), tensor.size);
    }
    offset += round_up(tensor.size, kPage);
  }
  return File::of(space.give_away(name));
}

}  // namespace gabbro::gguf
