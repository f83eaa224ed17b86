// `group_norm_nhwc`.
#include "kernels/rows/group_norm_nhwc.h"

#include <algorithm>
#include <string>

#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/row_kernels.h"

namespace gabbro::gpu {
namespace {

constexpr int64_t kMostSlices = 512;         // of an image: a thread of its last block reads all of them
constexpr int64_t kLeastElements = 1 << 13;  // of a slice

class GroupNormNhwc : public Kernel {
 public:
  GroupNormNhwc(const abi::TensorView& x, const GroupNormNhwcArgs& args, const MakeContext& context) : args_(args) {
    const std::string type(dtype_name(x.dtype));
    implementation = "group_norm_nhwc_" + type;
    moments_ = context.function("group_norm_nhwc_moments_" + type);
    normalize_ = context.function(implementation);
    const int64_t images = x.shape[0], places = args.places;
    // Two blocks for each that the device holds at a time.
    const int64_t wanted = std::clamp<int64_t>(2 * api::resident_blocks(normalize_) / images, 1, kMostSlices);
    const int64_t least = (kLeastElements + args.channels - 1) / args.channels;
    const int64_t slice = std::max((places + wanted - 1) / wanted, std::min(least, places));
    args_.slice = static_cast<i32>(slice);
    args_.slices = static_cast<i32>((places + slice - 1) / slice);
    grid_ = {static_cast<u32>(args_.slices), static_cast<u32>(images)};
    partials_ = images * args_.slices * args.groups;
    scratch_bytes = static_cast<size_t>(partials_ + images * args.groups) * sizeof(FloatPair);
    bytes = 3 * static_cast<double>(dtype_bytes(x.dtype, 1)) * static_cast<double>(elements(x));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    GroupNormNhwcArgs args = args_;
    args.x = input<void>(launch, 0);
    args.weight = input<float>(launch, 1);
    args.bias = input<float>(launch, 2);
    args.y = output<void>(launch, 0);
    args.loose = !is_16_byte_aligned(args.x) || !is_16_byte_aligned(args.y);
    args.partials = static_cast<FloatPair*>(launch.scratch);
    args.groups_of_images = args.partials + partials_;
    args.arrived = run.counters;
    run(moments_, grid_, args);
    run(normalize_, grid_, args);
  }

 private:
  GroupNormNhwcArgs args_;
  const api::Function* moments_ = nullptr;
  const api::Function* normalize_ = nullptr;
  Dim grid_;
  int64_t partials_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_group_norm_nhwc(const abi::KernelRequest& request, const MakeContext& context) {
  if (!has_operands(request, 3, 1)) return nullptr;
  const abi::TensorView &x = request.inputs[0], &y = request.outputs[0];
  if ((x.dtype != DType::f32 && x.dtype != DType::f16 && x.dtype != DType::bf16) || x.rank < 3) return nullptr;
  if (!is_plain(x, x.dtype) || !abi::is_contiguous(x) || !is_plain(y, x.dtype) || !abi::is_contiguous(y))
    return nullptr;
  const int64_t images = x.shape[0], channels = x.shape[x.rank - 1], all = elements(x);
  const int64_t groups = integer_attribute(request, "groups", 0);
  const auto vector = static_cast<int64_t>(kVectorBytes / dtype_bytes(x.dtype, 1));
  if (all == 0 || !same_shape(x, y) || images > kCounters || channels % vector != 0 || channels > kMostNormChannels)
    return nullptr;
  if (groups < 1 || groups > kMostNormGroups || channels % groups != 0 || all / images / channels > (1 << 30))
    return nullptr;
  for (int i = 1; i < 3; ++i)
    if (!has_shape(request.inputs[i], DType::f32, {channels})) return nullptr;
  GroupNormNhwcArgs args{};
  args.places = static_cast<i32>(all / images / channels);
  args.channels = static_cast<i32>(channels);
  args.groups = static_cast<i32>(groups);
  args.silu = integer_attribute(request, "silu", 0) != 0;
  args.epsilon = static_cast<float>(real_attribute(request, "epsilon", 0));
  return std::make_unique<GroupNormNhwc>(x, args, context);
}

}  // namespace gabbro::gpu
