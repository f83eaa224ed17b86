// `linear` and `linear_fused` (docs/design/fused_ops.md): n matrices with one x, in one parallel loop over all their
// panels.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/common/linear_request.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/kernels/linear/linear_dot.h"
#include "backends/cpu/pack/pack.h"

namespace gabbro::cpu::GABBRO_ISA {

using abi::Epilogue;
using abi::LinearOptions;

// Whether products read this matrix of K columns: packed, or rows in the file's layout.
bool is_linear_weight(const abi::TensorView& matrix, int64_t columns);

class Linear : public Kernel {
 public:
  // The request's operands are checked (linear_make.cc).
  Linear(const abi::KernelRequest& request, const LinearOptions& options, int workers);

  void run(const abi::Launch& launch, Worker& worker) const override;
  std::span<const std::byte> first_weights(const abi::Launch& launch, const Worker& worker) const override;

 private:
  struct Matrix {
    DType dtype;
    bool packed;
    bool in_place;  // few tokens meet plain rows of consecutive elements: neither packed nor copied
    int64_t rows;
    int64_t row_step, column_step;  // bytes; where not packed
    int64_t panels;
    int64_t panel_bytes;
    int variant = 0;  // of the activations' sums
    int64_t first_item = 0;
    int panels_per_item = 1;
    FewQuantized few_quantized = nullptr;
    FewPlain few_plain = nullptr;
    PackedDot packed_dot[kPackedTile / 4][2] = {};           // small batches: of width 4, 8, for one or two panels
    Unpack unpack = nullptr;                                 // of matrices that meet their tokens as words
    MultiTokenI16 multi_token_i16[kTileTokens / 4][2] = {};  // of width 4, 8, 12, for one or two panels
    ManyPlain many_plain[kTileTokens / 4][2] = {};
  };
  // Panels that are computed together: neighbors; with silu·mul the same ones of both matrices, first the panels of the
  // first matrix.
  static constexpr int kMaxItemPanels = 8;
  struct Item {
    int count = 0;
    const Matrix* matrices[kMaxItemPanels];
    int64_t panels[kMaxItemPanels];
    const void* weights[kMaxItemPanels];
    UnpackedPanel unpacked[kMaxItemPanels];
  };
  struct Pass;  // what one run passes around

  void add_matrix(const abi::TensorView& weight);
  void plan_items(int workers);
  void plan_scratch(int workers);

  const char* prepare_few(const Pass& pass) const;
  void prepare_many(const Pass& pass, Worker& worker) const;
  void add_item(int64_t index, Item& item) const;
  const void* load_panel(const Matrix& m, const std::byte* data, int64_t panel, char* memory) const;
  void load_item(const Pass& pass, Item& item) const;
  void multiply_few(const Item& item, const char* tile, float* y) const;
  void multiply_many(const Item& item, const char* tile, int width, float* y) const;
  void run_few(const Pass& pass, Worker& worker) const;
  void run_many(const Pass& pass, Worker& worker) const;
  void finish(const Pass& pass, const Item& item, int64_t tile, int width, float* y) const;

  LinearOptions options_;
  Tiling tiling_;
  int64_t columns_;
  ActivationPlan activations_;
  std::vector<Matrix> matrices_;
  int64_t items_ = 0;    // of all matrices
  int together_ = 1;     // neighboring items that a product with few tokens takes at once
  int item_panels_ = 1;  // in those, at most
  int64_t tiles_per_piece_ = 1;
  int64_t pieces_ = 1;  // into which the tiles of an item are cut
  int64_t grain_ = 1;
  int64_t column_parts_ = 1;  // into which the activations of a tile are cut, to be prepared
  int64_t shared_bytes_ = 0;  // all tiles, where there are many tokens
  int64_t worker_bytes_ = 0;
  int64_t repacked_bytes_ = 0, unpacked_bytes_ = 0;  // per panel of an item
};

}  // namespace gabbro::cpu::GABBRO_ISA
