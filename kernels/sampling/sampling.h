// Arguments of the kernel of `sampling`.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

struct RowSettings {
  float temperature, top_k, top_p, log_min_p, repeat_penalty, frequency_penalty, presence_penalty;
};
struct LogitEdit {
  i32 token;  // -1: none
  i32 count;
};

// A block per row.
struct SamplingArgs {
  const float* logits;          // [rows][columns]
  const RowSettings* settings;  // [rows]
  const u32* draws;             // [rows][2]
  const LogitEdit* edits;       // [rows][edit_count]
  const float* bias;            // [rows][edit_count]
  float* edited;                // [rows][columns] if there are edits
  i32* tokens;                  // [rows]
  float* measures;              // [rows][3]
  i32 columns;
  i32 edit_count;
};
inline constexpr int kSamplingThreads = 1024;

}  // namespace gabbro::gpu
