// `causal_conv`, `selective_scan` and `gated_delta_rule`.
#include "kernels/recurrent/recurrence.h"
#include "backends/common/recurrence_request.h"
#include "backends/gpu/kernel_table.h"

namespace gabbro::gpu {
namespace {

TokenSlots token_slots(const abi::Launch& launch, int first, int64_t slots) {
  return {.sequence = input<i32>(launch, first),
          .positions = input<i32>(launch, first + 1),
          .slots = input<i32>(launch, first + 2),
          .sequences = static_cast<i32>(launch.inputs[first + 2].shape[0]),
          .count = static_cast<i32>(slots),
          .tokens = static_cast<i32>(launch.inputs[first].shape[0])};
}

u32 parts(int64_t count, int64_t each) { return static_cast<u32>((count + each - 1) / each); }

class CausalConv : public Kernel {
 public:
  CausalConv(const abi::CausalConvRequest& request, const MakeContext& context) : r_(request) {
    const std::string name = r_.taps <= 3 ? "causal_conv_3" : r_.taps == 4 ? "causal_conv_4" : "causal_conv_8";
    function_ = context.function(name);
    implementation = name;
    bytes = 8.0 * static_cast<double>(r_.tokens * r_.channels);
    flops = 2.0 * static_cast<double>(r_.tokens * r_.channels * r_.taps);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    using In = abi::CausalConvInput;
    run(function_, {parts(r_.channels, kConvThreads), static_cast<u32>(r_.tokens)},
        CausalConvArgs{.x = input<float>(launch, In::kX),
                       .weight = input<float>(launch, In::kWeight),
                       .bias = r_.bias ? input<float>(launch, In::kBias) : nullptr,
                       .state = output<float>(launch, 1),
                       .y = output<float>(launch, 0),
                       .places = token_slots(launch, In::kSequence, r_.slots),
                       .channels = static_cast<i32>(r_.channels),
                       .taps = static_cast<i32>(r_.taps)});
  }

 private:
  abi::CausalConvRequest r_;
  const api::Function* function_;
};

class SelectiveScan : public Kernel {
 public:
  SelectiveScan(const abi::SelectiveScanRequest& request, const MakeContext& context)
      : r_(request), function_(context.function("selective_scan")) {
    const auto elements = static_cast<double>(r_.heads * r_.rows * r_.states);
    implementation = "selective_scan";
    bytes = 8.0 * elements;
    flops = 5.0 * static_cast<double>(r_.tokens) * elements;
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    using In = abi::SelectiveScanInput;
    const i32 lanes = scan_lanes(r_.states);
    run(function_, {parts(r_.heads * r_.rows, kScanBlockThreads / lanes), static_cast<u32>(r_.tokens)},
        SelectiveScanArgs{.x = input<float>(launch, In::kX),
                          .dt = input<float>(launch, In::kDt),
                          .a = input<float>(launch, In::kA),
                          .b = input<float>(launch, In::kB),
                          .c = input<float>(launch, In::kC),
                          .state = output<float>(launch, 1),
                          .y = output<float>(launch, 0),
                          .places = token_slots(launch, In::kSequence, r_.slots),
                          .heads = static_cast<i32>(r_.heads),
                          .rows = static_cast<i32>(r_.rows),
                          .groups = static_cast<i32>(r_.groups),
                          .states = static_cast<i32>(r_.states),
                          .lanes = lanes,
                          .one_decay = r_.one_decay ? 1 : 0});
  }

 private:
  abi::SelectiveScanRequest r_;
  const api::Function* function_;
};

class GatedDeltaRule : public Kernel {
 public:
  GatedDeltaRule(const abi::DeltaRuleRequest& request, const MakeContext& context)
      : r_(request), function_(context.function("gated_delta_rule")) {
    const auto elements = static_cast<double>(r_.heads * r_.rows * r_.states);
    implementation = "gated_delta_rule";
    bytes = 8.0 * elements;
    flops = 7.0 * static_cast<double>(r_.tokens) * elements;
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    using In = abi::DeltaRuleInput;
    const i32 lanes = scan_lanes(r_.states);
    run(function_, {parts(r_.heads * r_.rows, kScanBlockThreads / lanes), static_cast<u32>(r_.tokens)},
        DeltaRuleArgs{.q = input<float>(launch, In::kQ),
                      .k = input<float>(launch, In::kK),
                      .v = input<float>(launch, In::kV),
                      .decay = input<float>(launch, In::kDecay),
                      .beta = input<float>(launch, In::kBeta),
                      .state = output<float>(launch, 1),
                      .y = output<float>(launch, 0),
                      .places = token_slots(launch, In::kSequence, r_.slots),
                      .heads = static_cast<i32>(r_.heads),
                      .rows = static_cast<i32>(r_.rows),
                      .groups = static_cast<i32>(r_.groups),
                      .states = static_cast<i32>(r_.states),
                      .lanes = lanes});
  }

 private:
  abi::DeltaRuleRequest r_;
  const api::Function* function_;
};

}  // namespace

std::unique_ptr<Kernel> make_causal_conv(const abi::KernelRequest& request, const MakeContext& context) {
  const auto read = abi::read_causal_conv(request);
  return read && read->taps <= kMostTaps ? std::make_unique<CausalConv>(*read, context) : nullptr;
}

std::unique_ptr<Kernel> make_selective_scan(const abi::KernelRequest& request, const MakeContext& context) {
  const auto read = abi::read_selective_scan(request);
  return read && read->states <= kMostStates ? std::make_unique<SelectiveScan>(*read, context) : nullptr;
}

std::unique_ptr<Kernel> make_gated_delta_rule(const abi::KernelRequest& request, const MakeContext& context) {
  const auto read = abi::read_gated_delta_rule(request);
  return read && read->states <= kMostStates ? std::make_unique<GatedDeltaRule>(*read, context) : nullptr;
}

}  // namespace gabbro::gpu
