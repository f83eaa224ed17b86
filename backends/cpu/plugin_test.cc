// The built plugin through its C entry point, as the library loads it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "backends/cpu/host.h"
#include "backends/cpu/kernel_test_util.h"

namespace gabbro::cpu {
namespace {

const abi::Backend& backend() {
  static const abi::Backend* const kLoaded = [] {
    const char* folder = std::getenv("GABBRO_BUILD_DIR");
    const std::string path = std::string(folder == nullptr ? "build/release" : folder) + "/lib/libgabbro_cpu.so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    return reinterpret_cast<const abi::Backend* (*)()>(dlsym(library, abi::kEntryPoint))();
  }();
  return *kLoaded;
}

class Opened {
 public:
  explicit Opened(int32_t threads) {
    const abi::DeviceOptions options{.threads = threads};
    EXPECT_EQ(backend().open(0, &options, &device_).code, abi::StatusCode::kOk);
  }
  ~Opened() { backend().close(device_); }
  operator abi::Device*() const { return device_; }

 private:
  abi::Device* device_ = nullptr;
};

TEST(Plugin, IsOfThisVersion) {
  EXPECT_EQ(backend().abi_version, abi::kVersion);
  EXPECT_STREQ(backend().name, "cpu");
  EXPECT_EQ(backend().device_count(), 1);
}

TEST(Plugin, KnowsItsDevice) {
  abi::DeviceFacts facts;
  ASSERT_EQ(backend().device_facts(0, &facts).code, abi::StatusCode::kOk);
  EXPECT_TRUE(facts.usable) << facts.reason;
  EXPECT_STREQ(facts.reason, "");
  EXPECT_STREQ(facts.id, "cpu");
  EXPECT_GT(std::string(facts.name).size(), 0u);
  EXPECT_GT(facts.memory_total, uint64_t{64} << 20);
  EXPECT_LE(facts.memory_free, facts.memory_total);
  EXPECT_GE(facts.compute_units, 1);
  EXPECT_LE(facts.compute_units, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_TRUE(facts.host_accessible);
  const char* forced = std::getenv("GABBRO_CPU");
  bool known = false;
  for (const IsaTable* isa : isa_tables()) known |= std::string(isa->name) == facts.architecture;
  EXPECT_TRUE(known) << facts.architecture;
  if (forced != nullptr) {
    EXPECT_STREQ(facts.architecture, forced);
  }
  EXPECT_EQ(backend().device_facts(1, &facts).code, abi::StatusCode::kFailed);
}

// The library reads GABBRO_CPU at each call; a separate test process would see the same.
TEST(Plugin, ObeysTheForcedInstructionSet) {
  const char* before = std::getenv("GABBRO_CPU");
  const std::string saved = before == nullptr ? "" : before;
  abi::DeviceFacts facts;
  abi::Device* device = nullptr;
  for (const IsaTable* isa : isa_tables()) {
    setenv("GABBRO_CPU", isa->name, 1);
    ASSERT_EQ(backend().device_facts(0, &facts).code, abi::StatusCode::kOk);
    EXPECT_EQ(facts.usable, isa->supported());
    if (!isa->supported()) continue;
    EXPECT_STREQ(facts.architecture, isa->name);
    ASSERT_EQ(backend().open(0, nullptr, &device).code, abi::StatusCode::kOk);
    abi::TensorView view{.shape = {4}, .strides = {1}, .rank = 1, .dtype = DType::f32, .layout = abi::Layout::kStrided};
    const abi::KernelRequest request{
        .op = "neg", .inputs = &view, .input_count = 1, .outputs = &view, .output_count = 1};
    abi::BoundKernel kernel;
    EXPECT_EQ(backend().find_kernel(device, &request, &kernel).code, abi::StatusCode::kOk);
    backend().release_kernel(device, kernel.handle);
    backend().close(device);
  }
  setenv("GABBRO_CPU", "sse9", 1);
  ASSERT_EQ(backend().device_facts(0, &facts).code, abi::StatusCode::kOk);
  EXPECT_FALSE(facts.usable);
  EXPECT_NE(std::string(facts.reason).find("'sse9' is not one of"), std::string::npos) << facts.reason;
  const abi::Status status = backend().open(0, nullptr, &device);
  EXPECT_EQ(status.code, abi::StatusCode::kFailed);
  EXPECT_NE(std::string(status.message).find("sse9"), std::string::npos) << status.message;
  if (before == nullptr) {
    unsetenv("GABBRO_CPU");
  } else {
    setenv("GABBRO_CPU", saved.c_str(), 1);
  }
}

TEST(Plugin, RefusesBadOptions) {
  abi::Device* device = nullptr;
  for (const int32_t threads : {-1, 100000}) {
    const abi::DeviceOptions options{.threads = threads};
    EXPECT_EQ(backend().open(0, &options, &device).code, abi::StatusCode::kFailed);
  }
  EXPECT_EQ(backend().open(7, nullptr, &device).code, abi::StatusCode::kFailed);
}

TEST(Plugin, AllocatesAlignedMemoryOrSaysThatThereIsNone) {
  const Opened device(1);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{5} << 20}) {
    void* pointer = nullptr;
    ASSERT_EQ(backend().allocate(device, nullptr, bytes, &pointer).code, abi::StatusCode::kOk);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer) % 64, 0u);
    std::memset(pointer, 1, bytes);
    backend().free(device, nullptr, pointer);
  }
  for (const size_t bytes : {size_t{1} << 50, ~size_t{0}}) {
    void* pointer = &pointer;
    const abi::Status status = backend().allocate(device, nullptr, bytes, &pointer);
    EXPECT_EQ(status.code, abi::StatusCode::kOutOfMemory);
    EXPECT_EQ(pointer, nullptr);
    EXPECT_NE(std::string(status.message).find(std::to_string(bytes)), std::string::npos) << status.message;
  }
}

TEST(Plugin, DoesNotGiveOutMoreMemoryThanThereIs) {
  const Opened device(1);
  abi::DeviceFacts facts;
  ASSERT_EQ(backend().device_facts(0, &facts).code, abi::StatusCode::kOk);
  // Nothing is written to these, so that the system would promise more than it has.
  const size_t quarter = facts.memory_total / 4;
  std::vector<void*> pointers(9, nullptr);
  for (void*& pointer : pointers) backend().allocate(device, nullptr, quarter, &pointer);
  EXPECT_LE(std::ranges::count_if(pointers, [](void* pointer) { return pointer != nullptr; }), 4);
  for (void* pointer : pointers) backend().free(device, nullptr, pointer);
}

TEST(Plugin, CountsItsMemory) {
  const Opened device(1);
  const auto facts = [&](abi::MemoryKind kind) {
    abi::PoolFacts now;
    EXPECT_EQ(backend().memory_facts(device, kind, &now).code, abi::StatusCode::kOk);
    return now;
  };
  void *small = nullptr, *large = nullptr, *none = nullptr;
  ASSERT_EQ(backend().allocate(device, nullptr, 1000, &small).code, abi::StatusCode::kOk);
  ASSERT_EQ(backend().allocate(device, nullptr, size_t{5} << 20, &large).code, abi::StatusCode::kOk);
  EXPECT_EQ(backend().allocate(device, nullptr, size_t{1} << 50, &none).code, abi::StatusCode::kOutOfMemory);
  abi::PoolFacts now = facts(abi::MemoryKind::kDevice);
  EXPECT_GE(now.in_use, 1000u + (uint64_t{5} << 20));
  EXPECT_EQ(now.reserved, now.in_use);
  EXPECT_EQ(now.allocations, 2u);
  EXPECT_EQ(now.failures, 1u);
  const uint64_t peak = now.in_use_peak;
  backend().free(device, nullptr, large);
  now = facts(abi::MemoryKind::kDevice);
  EXPECT_LT(now.in_use, uint64_t{1} << 20);
  EXPECT_EQ(now.in_use_peak, peak);
  EXPECT_EQ(now.releases, 1u);
  EXPECT_EQ(backend().reset_memory_facts(device, abi::MemoryKind::kDevice).code, abi::StatusCode::kOk);
  EXPECT_EQ(facts(abi::MemoryKind::kDevice).in_use_peak, now.in_use);
  EXPECT_EQ(facts(abi::MemoryKind::kDevice).allocations, 0u);
  backend().free(device, nullptr, small);
  EXPECT_EQ(facts(abi::MemoryKind::kDevice).in_use, 0u);
  EXPECT_EQ(facts(abi::MemoryKind::kPinned).reserved, 0u);
}

TEST(Plugin, CopiesAndStreams) {
  const Opened device(1);
  abi::Stream* stream = nullptr;
  ASSERT_EQ(backend().create_stream(device, &stream).code, abi::StatusCode::kOk);
  const std::vector<int> source = {1, 2, 3};
  std::vector<int> middle(3);
  std::vector<int> target(3);
  EXPECT_EQ(backend().copy_to_device(device, stream, middle.data(), source.data(), 12).code, abi::StatusCode::kOk);
  EXPECT_EQ(backend().copy_to_host(device, stream, target.data(), middle.data(), 12).code, abi::StatusCode::kOk);
  EXPECT_EQ(backend().copy_to_host(device, stream, nullptr, nullptr, 0).code, abi::StatusCode::kOk);
  EXPECT_EQ(backend().synchronize(device, stream).code, abi::StatusCode::kOk);
  EXPECT_EQ(target, source);
  abi::Event* event = nullptr;
  ASSERT_EQ(backend().create_event(device, &event).code, abi::StatusCode::kOk);
  EXPECT_EQ(backend().record(device, stream, event).code, abi::StatusCode::kOk);
  EXPECT_EQ(backend().wait(device, nullptr, event).code, abi::StatusCode::kOk);
  EXPECT_EQ(backend().synchronize_event(device, event).code, abi::StatusCode::kOk);
  backend().destroy_event(device, event);
  backend().destroy_stream(device, stream);
}

TEST(Plugin, DoesNotKnowEveryOp) {
  const Opened device(1);
  abi::TensorView view{.shape = {4}, .strides = {1}, .rank = 1, .dtype = DType::f32, .layout = abi::Layout::kStrided};
  const abi::KernelRequest request{
      .op = "frobnicate", .inputs = &view, .input_count = 1, .outputs = &view, .output_count = 1};
  abi::BoundKernel kernel;
  const abi::Status status = backend().find_kernel(device, &request, &kernel);
  EXPECT_EQ(status.code, abi::StatusCode::kUnsupported);
  EXPECT_NE(std::string(status.message).find("frobnicate"), std::string::npos);
}

// A list of launches that depend on each other: x + x, then the square of that, a thousand times over.
class Chain {
 public:
  Chain(abi::Device* device, int64_t count, int launches) : device_(device), x_(count), y_(count) {
    view_ = {.shape = {count}, .strides = {1}, .rank = 1, .dtype = DType::f32, .layout = abi::Layout::kStrided};
    const abi::TensorView two[] = {view_, view_};
    for (const char* op : {"add", "mul"}) {
      const abi::KernelRequest request{.op = op, .inputs = two, .input_count = 2, .outputs = &view_, .output_count = 1};
      abi::BoundKernel kernel;
      EXPECT_EQ(backend().find_kernel(device, &request, &kernel).code, abi::StatusCode::kOk);
      EXPECT_GT(kernel.bytes, 0);
      kernels_.push_back(kernel.handle);
    }
    operands_.resize(3 * launches, view_);
    for (int i = 0; i < launches; ++i) {
      abi::TensorView* views = &operands_[3 * i];
      views[0].data = views[1].data = (i % 2 == 0 ? x_ : y_).data();
      views[2].data = (i % 2 == 0 ? y_ : x_).data();
      list_.push_back(
          {.kernel = kernels_[i % 2], .inputs = views, .outputs = views + 2, .input_count = 2, .output_count = 1});
    }
  }
  ~Chain() {
    for (const void* kernel : kernels_) backend().release_kernel(device_, kernel);
  }
  abi::Status execute(const std::atomic<bool>* cancel) {
    return backend().execute(device_, nullptr, list_.data(), static_cast<int32_t>(list_.size()), cancel);
  }
  std::vector<float>& x() { return x_; }

 private:
  abi::Device* device_;
  abi::TensorView view_;
  std::vector<float> x_;
  std::vector<float> y_;
  std::vector<const void*> kernels_;
  std::vector<abi::TensorView> operands_;
  std::vector<abi::Launch> list_;
};

TEST(Plugin, ExecutesLaunchesInTheirOrder) {
  for (const int32_t threads : {0, 1, 2, 3}) {
    const Opened device(threads);
    Chain chain(device, 20000, 1000);
    std::fill(chain.x().begin(), chain.x().end(), 0.25f);  // (x + x)² of 1/4 is 1/4
    ASSERT_EQ(chain.execute(nullptr).code, abi::StatusCode::kOk);
    for (const float value : chain.x()) ASSERT_EQ(value, 0.25f);
    EXPECT_EQ(backend().execute(device, nullptr, nullptr, 0, nullptr).code, abi::StatusCode::kOk);
  }
}

// One worker does launches that are this small, within work that is long in all.
TEST(Plugin, ExecutesManyTinyLaunchesInTheirOrder) {
  for (const int32_t threads : {0, 1, 3}) {
    const Opened device(threads);
    Chain chain(device, 1000, 4000);
    std::fill(chain.x().begin(), chain.x().end(), 0.25f);
    ASSERT_EQ(chain.execute(nullptr).code, abi::StatusCode::kOk);
    for (const float value : chain.x()) ASSERT_EQ(value, 0.25f);
    const std::atomic<bool> cancel{true};
    EXPECT_EQ(chain.execute(&cancel).code, abi::StatusCode::kCanceled);
  }
}

TEST(Plugin, StopsWhenCanceled) {
  const Opened device(2);
  Chain chain(device, 1 << 18, 20000);
  std::atomic<bool> cancel{false};
  std::chrono::steady_clock::time_point requested;
  std::thread canceler([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    requested = std::chrono::steady_clock::now();
    cancel = true;
  });
  const abi::Status status = chain.execute(&cancel);
  const auto late = std::chrono::steady_clock::now() - requested;
  canceler.join();
  EXPECT_EQ(status.code, abi::StatusCode::kCanceled);
  EXPECT_LT(std::chrono::duration<double>(late).count(), 0.1);
  EXPECT_EQ(chain.execute(&cancel).code, abi::StatusCode::kCanceled);
}

TEST(Plugin, PacksWhatItsInstructionSetArranges) {
  const Opened device(2);
  EXPECT_EQ(backend().packed_bytes(device, DType::i64, 16, 32), 0u);
  const uint64_t row = 0;
  const abi::PackRequest integers = {DType::i64, 1, 1, 0, 1};
  EXPECT_EQ(backend().pack(device, nullptr, &integers, &row, nullptr).code, abi::StatusCode::kUnsupported);
  const size_t bytes = backend().packed_bytes(device, DType::q8_0, 17, 64);
  if (bytes == 0) return;
  const std::vector<uint8_t> matrix(dtype_bytes(DType::q8_0, 17 * 64));
  std::vector<uint8_t> packed(bytes + 64, 0xaa);
  void* target = packed.data();
  size_t space = packed.size();
  std::align(64, bytes, target, space);
  const abi::PackRequest all = {DType::q8_0, 17, 64, 0, 17};
  EXPECT_EQ(backend().pack(device, nullptr, &all, matrix.data(), target).code, abi::StatusCode::kOk);
}

TEST(Plugin, PacksAMatrixByParts) {
  constexpr int64_t kRows = 150, kColumns = 512;
  const Opened device(2);
  for (const DType dtype : {DType::q4_0, DType::q4_k, DType::q8_0, DType::nvfp4}) {
    std::vector<uint8_t> matrix(dtype_bytes(dtype, kRows * kColumns));
    for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<uint8_t>(i * 7 % 61);
    const size_t bytes = backend().packed_bytes(device, dtype, kRows, kColumns);
    void *whole = nullptr, *parts = nullptr;
    for (void** target : {&whole, &parts}) {
      ASSERT_EQ(backend().allocate(device, nullptr, bytes, target).code, abi::StatusCode::kOk);
    }
    const abi::PackRequest all = {dtype, kRows, kColumns, 0, kRows};
    ASSERT_EQ(backend().pack(device, nullptr, &all, matrix.data(), whole).code, abi::StatusCode::kOk);
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{128, 22}, {0, 64}, {64, 64}}) {
      const abi::PackRequest part = {dtype, kRows, kColumns, first, count};
      const uint8_t* const source = matrix.data() + dtype_bytes(dtype, static_cast<size_t>(first * kColumns));
      ASSERT_EQ(backend().pack(device, nullptr, &part, source, parts).code, abi::StatusCode::kOk);
    }
    EXPECT_EQ(std::memcmp(whole, parts, bytes), 0) << dtype_name(dtype);
    for (const abi::PackRequest wrong : {abi::PackRequest{dtype, kRows, kColumns, 10, 64},
                                         {dtype, kRows, kColumns, 0, 30},
                                         {dtype, kRows, kColumns, 128, 64},
                                         {dtype, kRows, kColumns, 0, 0}}) {
      EXPECT_EQ(backend().pack(device, nullptr, &wrong, matrix.data(), parts).code, abi::StatusCode::kFailed);
    }
    for (void* memory : {whole, parts}) backend().free(device, nullptr, memory);
  }
}

}  // namespace
}  // namespace gabbro::cpu
