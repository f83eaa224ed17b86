// `expert_linear` reads the weights of the routed experts alone, and a token's result depends on no other token. Values
// are in tests/data/ops/experts.json and in the cases of tests/conformance.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <random>

#include "backends/cpu/kernel_test_util.h"
#include "src/formats/quant/quant.h"

namespace gabbro::cpu {
namespace {

constexpr int64_t kExperts = 6, kExpertRows = 32, kExpertColumns = 128;  // in f32 an expert is four pages of 4096 bytes

struct Pages {
  explicit Pages(size_t size)
      : bytes(size), data(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { ::munmap(data, bytes); }
  Pages(const Pages&) = delete;

  size_t bytes;
  void* data;
};

abi::TensorView view_of(std::initializer_list<int64_t> shape, DType dtype, const void* data) {
  abi::TensorView view = {.data = const_cast<void*>(data), .rank = static_cast<int32_t>(shape.size()), .dtype = dtype};
  std::copy(shape.begin(), shape.end(), view.shape);
  int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    view.strides[axis] = stride;
    stride *= view.shape[axis];
  }
  return view;
}

struct Product {
  int64_t tokens, used;
  std::vector<float> x;  // [T, K]
  std::vector<int32_t> ids;
};

Product random_product(int64_t tokens, int64_t used, std::vector<int32_t> ids) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Product product{tokens, used, std::vector<float>(static_cast<size_t>(tokens * kExpertColumns)), std::move(ids)};
  for (float& value : product.x) value = normal(random);
  return product;
}

// The result [T, U, N], and the bytes that the kernel says that it moves.
struct Result {
  std::vector<float> y;
  double bytes;
};

Result run(const IsaTable& isa, ThreadPool& pool, const Product& p, const void* weights, DType dtype, bool packed) {
  Result result{std::vector<float>(static_cast<size_t>(p.tokens * p.used * kExpertRows)), 0};
  abi::TensorView inputs[] = {view_of({p.tokens, kExpertColumns}, DType::f32, p.x.data()),
                              view_of({kExperts * kExpertRows, kExpertColumns}, dtype, weights),
                              view_of({p.tokens, p.used}, DType::i32, p.ids.data())};
  if (packed) inputs[1].layout = abi::Layout::kPacked;
  abi::TensorView output = view_of({p.tokens, p.used, kExpertRows}, DType::f32, result.y.data());
  const abi::Attribute experts = {"experts", abi::AttributeKind::kInteger, kExperts, 0, nullptr};
  const abi::KernelRequest request = {"expert_linear", inputs, 3, &output, 1, &experts, 1};
  std::unique_ptr<Kernel> kernel;
  for (const KernelEntry& entry : isa.kernels) {
    if (kernel == nullptr && entry.has(request.op)) kernel = entry.make(request, {.workers = pool.workers()});
  }
  if (kernel == nullptr) throw std::runtime_error("no kernel");
  std::vector<char> scratch(kernel->scratch_bytes + 64);
  char* const aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  const abi::Launch launch = {kernel.get(), inputs, &output, 3, 1, aligned};
  pool.run([&](Worker& worker) { kernel->run(launch, worker); });
  result.bytes = kernel->bytes;
  return result;
}

void fill(Pages& pages) {
  auto* values = static_cast<float*>(pages.data);
  for (size_t i = 0; i < pages.bytes / sizeof(float); ++i) values[i] = static_cast<float>(i % 13) - 6;
}

// The memory of the other experts cannot be read, so that a kernel that does so is killed.
TEST(ExpertLinear, ReadsTheWeightsOfRoutedExpertsAlone) {
  constexpr size_t kExpertBytes = kExpertRows * kExpertColumns * sizeof(float);
  for (const int64_t tokens : {1, 2, 40}) {
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < tokens; ++t) ids.insert(ids.end(), {1, t % 2 == 0 ? 4 : 1});
    const Product product = random_product(tokens, 2, ids);
    test::for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
      Pages weights(kExperts * kExpertBytes);
      fill(weights);
      const Result expected = run(isa, pool, product, weights.data, DType::f32, false);
      for (const size_t unused : {0, 2, 3, 5}) {
        ASSERT_EQ(::mprotect(static_cast<char*>(weights.data) + unused * kExpertBytes, kExpertBytes, PROT_NONE), 0);
      }
      EXPECT_EQ(run(isa, pool, product, weights.data, DType::f32, false).y, expected.y);
    });
  }
}

TEST(ExpertLinear, CountsTheBytesOfRoutedExperts) {
  constexpr double kExpertBytes = kExpertRows * kExpertColumns * 4;
  Pages weights(static_cast<size_t>(kExperts * kExpertBytes));
  test::for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
    for (const int64_t used : {1, 2, 5}) {
      const Product product = random_product(1, used, std::vector<int32_t>(static_cast<size_t>(used), 3));
      const double others = kExpertColumns * 4 + static_cast<double>(used * (kExpertRows + 1) * 4);  // x, ids and y
      EXPECT_EQ(run(isa, pool, product, weights.data, DType::f32, false).bytes,
                static_cast<double>(used) * kExpertBytes + others);
    }
  });
}

// The first token's bits, wherever the others go.
TEST(ExpertLinear, GivesATokenTheSameBitsWithAnyOtherTokens) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0, DType::q4_1}) {
    std::mt19937 random(3);
    std::vector<std::byte> file(dtype_bytes(dtype, kExperts * kExpertRows * kExpertColumns));
    std::vector<float> values(kExperts * kExpertRows * kExpertColumns);
    for (float& value : values) value = static_cast<float>(random() % 256) / 128.0f - 1;
    quantize_row(dtype, values.data(), file.data(), std::ssize(values));
    for (const int64_t tokens : {3, 50}) {
      test::for_each_isa([&](const IsaTable& isa, ThreadPool& pool) {
        const size_t packed_bytes = isa.packed_bytes(dtype, kExperts * kExpertRows, kExpertColumns);
        Pages packed(std::max<size_t>(packed_bytes, 1));
        if (packed_bytes > 0)
          pool.run(
              [&](Worker& w) { isa.pack(dtype, kExperts * kExpertRows, kExpertColumns, file.data(), packed.data, w); });
        const void* weights = packed_bytes > 0 ? packed.data : file.data();
        std::vector<float> first;
        for (const int spread : {0, 1, 5}) {  // all with the first token's experts, or elsewhere
          std::vector<int32_t> ids;
          for (int32_t t = 0; t < tokens; ++t) ids.insert(ids.end(), {(2 + t * spread) % 6, (5 + t * spread) % 6});
          Product product = random_product(tokens, 2, ids);
          for (size_t i = kExpertColumns; i < product.x.size(); ++i) product.x[i] *= static_cast<float>(spread + 1);
          std::vector<float> y = run(isa, pool, product, weights, dtype, packed_bytes > 0).y;
          y.resize(2 * kExpertRows);
          if (first.empty()) first = y;
          EXPECT_EQ(y, first) << dtype_name(dtype) << ", " << tokens << " tokens, spread " << spread;
        }
      });
    }
  }
}

}  // namespace
}  // namespace gabbro::cpu
