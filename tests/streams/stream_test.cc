// Streams and events of src/backend/stream.h on the device that GABBRO_DEVICE names, and what Device does with them.
#include "src/backend/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>
#include <vector>

#include "src/backend/memory_block.h"
#include "src/backend/registry.h"
#include "src/formats/quant/quant.h"
#include "src/formats/quant/random_blocks.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro {
namespace {

constexpr int64_t kCount = 1021;
constexpr size_t kBytes = kCount * sizeof(float);

class Streams : public testing::Test {
 protected:
  Streams() {
    abi::TensorView view = {.shape = {kCount}, .strides = {1}, .rank = 1, .dtype = DType::f32};
    views_ = {view, view};
    negate_ = find_kernel(
        *device_, {.op = "neg", .inputs = &views_[0], .input_count = 1, .outputs = &views_[1], .output_count = 1});
  }

  void negate(Stream& stream, void* x, void* y) {
    views_[0].data = x;
    views_[1].data = y;
    const abi::Launch launch = {.kernel = negate_->bound.handle,
                                .inputs = &views_[0],
                                .outputs = &views_[1],
                                .input_count = 1,
                                .output_count = 1};
    stream.execute({&launch, 1});
  }

  std::span<float> host_floats() {
    host_.push_back(device_->allocate_host(kBytes));
    return {static_cast<float*>(host_.back().get()), kCount};
  }

  std::shared_ptr<Device> device_ = open_device("auto", {.threads = 2});
  std::vector<std::shared_ptr<void>> host_;
  std::vector<abi::TensorView> views_;
  std::shared_ptr<KernelHandle> negate_;
};

// A ring of two slots, as streamed weights have it: each pass copies into a slot while the other is computed with.
TEST_F(Streams, ARingOfSlotsIsFilledWhileItIsRead) {
  constexpr size_t kSlots = 2;
  constexpr int kPasses = 9;
  Stream& copies = device_->state().copy_stream(*device_);
  Stream& compute = device_->state().compute_stream(*device_);
  std::vector<std::shared_ptr<void>> slots, results;
  std::vector<std::span<float>> in, out;
  std::vector<std::unique_ptr<Event>> filled, used;
  for (size_t i = 0; i < kSlots; ++i) {
    slots.push_back(copies.allocate(kBytes));
    in.push_back(host_floats());
    filled.push_back(std::make_unique<Event>(device_));
    used.push_back(std::make_unique<Event>(device_));
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    const size_t slot = static_cast<size_t>(pass) % kSlots;
    filled[slot]->synchronize();  // its host memory is free again
    std::iota(in[slot].begin(), in[slot].end(), static_cast<float>(pass));
    copies.wait(*used[slot]);
    copies.copy_to_device(slots[slot].get(), in[slot].data(), kBytes);
    copies.record(*filled[slot]);
    compute.wait(*filled[slot]);
    results.push_back(compute.allocate(kBytes));
    negate(compute, slots[slot].get(), results.back().get());
    compute.record(*used[slot]);
    out.push_back(host_floats());
    compute.copy_to_host(out.back().data(), results.back().get(), kBytes);
  }
  copies.wait(*used[0]);  // the slots are freed on the stream that they are of
  copies.wait(*used[1]);
  slots.clear();
  compute.synchronize();
  for (int pass = 0; pass < kPasses; ++pass) {
    std::vector<float> expected(kCount);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = -static_cast<float>(pass) - static_cast<float>(i);
    EXPECT_THAT(out[static_cast<size_t>(pass)], testing::ElementsAreArray(expected)) << pass;
  }
  device_->synchronize();
}

TEST_F(Streams, AnotherStreamThanTheDevicesTwo) {
  const auto memory = device_->allocate(kBytes);
  const std::vector<float> values(kCount, 3);
  std::vector<float> found(kCount);
  device_->copy_to_device(memory.get(), values.data(), kBytes);
  {
    Stream stream(device_);
    Event ready(device_), done(device_);
    device_->state().compute_stream(*device_).record(ready);
    stream.wait(ready);
    const auto result = stream.allocate(kBytes);
    negate(stream, memory.get(), result.get());
    stream.copy_to_host(found.data(), result.get(), kBytes);  // not pinned: it is there
    EXPECT_EQ(found, std::vector<float>(kCount, -3));
    stream.record(done);
    done.synchronize();
    stream.synchronize();
  }
  device_->copy_to_host(found.data(), memory.get(), kBytes);
  EXPECT_EQ(found, values);
}

TEST_F(Streams, BlockingCopiesAreOverOnReturnAlsoOfPinnedMemory) {
  const auto memory = device_->allocate(kBytes);
  const std::span<float> in = host_floats(), out = host_floats();
  std::ranges::fill(in, 5.0f);
  device_->copy_to_device(memory.get(), in.data(), kBytes);
  std::ranges::fill(in, 6.0f);
  device_->copy_to_host(out.data(), memory.get(), kBytes);
  EXPECT_THAT(out, testing::Each(5.0f));
}

// Weights of a streamed layer: the file's bytes go to the device on the copy stream, and are packed there.
TEST_F(Streams, PackedOnTheDeviceIsPackedByUploading) {
  constexpr int64_t kRows = 150, kColumns = 512;
  for (const DType dtype : {DType::q4_0, DType::q6_k, DType::iq2_xs, DType::nvfp4}) {
    const size_t packed = device_->state().backend->packed_bytes(device_->state().device, dtype, kRows, kColumns);
    ASSERT_GT(packed, 0U);
    const size_t bytes = dtype_bytes(dtype, kRows * kColumns);
    const std::shared_ptr<void> host = device_->allocate_host(bytes);
    fill_random(dtype, {static_cast<std::byte*>(host.get()), bytes}, 0.02f, 3);
    Stream& copies = device_->state().copy_stream(*device_);
    Stream& compute = device_->state().compute_stream(*device_);
    Event arrived(device_);
    const auto source = copies.allocate(bytes), target = compute.allocate(packed);
    copies.copy_to_device(source.get(), host.get(), bytes);
    copies.record(arrived);
    compute.wait(arrived);
    for (const int64_t first : {int64_t{64}, int64_t{0}}) {
      compute.pack({dtype, kRows, kColumns, first, first == 0 ? 64 : kRows - 64},
                   static_cast<std::byte*>(source.get()) + dtype_bytes(dtype, static_cast<size_t>(first * kColumns)),
                   target.get());
    }
    compute.synchronize();
    Tensor streamed = device_->tensor_in(target, dtype, Shape{kRows, kColumns});
    streamed.state().spec.packed = true;
    const Tensor uploaded = device_->upload_matrix(dtype, kRows, kColumns, host);
    std::vector<float> expected(static_cast<size_t>(kRows * kColumns));
    dequantize_row(dtype, static_cast<const std::byte*>(host.get()), expected.data(), kRows * kColumns);
    // Scales are kept in f16 or f32, products of two of them in f32, and a format without codes as f16.
    constexpr float kHalfEpsilon = 0x1p-11f;
    for (const Tensor& matrix : {streamed, uploaded}) {
      const std::vector<float> found = to_host<float>(dequantize(matrix));
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], kHalfEpsilon * std::abs(expected[i]) + 0x1p-24f) << dtype_name(dtype) << i;
    }
  }
}

// The simulator, like HIP 6, refuses more than 85 % of its memory at once.
TEST_F(Streams, ABlockOfMostOfTheMemoryIsSeveralAllocations) {
  if (!std::string_view(device_->facts().id).starts_with("sim")) return;
  const size_t bytes = MemoryBlock::rounded(device_->facts().memory_total / 10 * 9), piece = bytes / 10 / 256 * 256;
  EXPECT_THROW(device_->allocate(bytes), OutOfMemory);
  const uint64_t before = device_->memory(abi::MemoryKind::kDevice).reserved;
  {
    MemoryBlock block(device_, bytes);
    std::vector<std::shared_ptr<void>> pieces;
    for (int i = 0; i < 9; ++i) pieces.push_back(block.take(piece));
    EXPECT_EQ(device_->memory(abi::MemoryKind::kDevice).reserved - before, bytes) << "no piece is another allocation";
    const float value = 3;
    float found = 0;
    for (const auto& one : pieces) device_->copy_to_device(one.get(), &value, sizeof value);
    device_->copy_to_host(&found, pieces.back().get(), sizeof found);
    EXPECT_EQ(found, value);
  }
  EXPECT_EQ(device_->memory(abi::MemoryKind::kDevice).reserved, before);
}

// More than a part holds: parts of the matrix follow each other through it.
TEST_F(Streams, ALargeMatrixIsUploadedByParts) {
  constexpr int64_t kRows = 18000, kColumns = 1024;  // 10 MB in Q4_0; a part has 8 MiB, 14528 rows
  const size_t bytes = dtype_bytes(DType::q4_0, kRows * kColumns);
  auto file = std::make_shared<std::vector<std::byte>>(bytes);
  fill_random(DType::q4_0, *file, 0.02f, 4);
  const Tensor matrix = device_->upload_matrix(DType::q4_0, kRows, kColumns, {file, file->data()});
  const std::vector<int32_t> rows = {0, 1, 63, 64, 14527, 14528, 14529, 17999};
  const std::vector<float> found =
      to_host<float>(embedding(matrix, device_->upload(DType::i32, Shape{std::ssize(rows)}, rows.data())));
  std::vector<float> expected(kColumns);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t row_bytes = bytes / kRows;
    dequantize_row(DType::q4_0, file->data() + static_cast<size_t>(rows[i]) * row_bytes, expected.data(), kColumns);
    for (size_t k = 0; k < kColumns; ++k) ASSERT_EQ(found[i * kColumns + k], expected[k]) << rows[i] << " " << k;
  }
}

// 27 MiB: more than the pinned stages of a plugin hold, which are refilled while their copies run.
TEST_F(Streams, AnUploadOfManyPiecesArrivesWhole) {
  std::vector<float> numbers((size_t{27} << 20) / sizeof(float) + 5);
  std::iota(numbers.begin(), numbers.end(), 0.0f);  // each a whole number that f32 has
  const Tensor uploaded = device_->upload(DType::f32, Shape{std::ssize(numbers)}, numbers.data());
  const std::vector<float> found = to_host<float>(uploaded);
  EXPECT_EQ(std::ranges::mismatch(found, numbers).in1 - found.begin(), std::ssize(numbers));
}

}  // namespace
}  // namespace gabbro
