// The fields and the tensors of the file that convert() writes, in its order. Private to convert.cc.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/convert/convert.h"
#include "src/convert/formats.h"
#include "src/convert/importance.h"
#include "src/convert/target.h"

namespace gabbro::llm {

class ConvertPlan {
 public:
  // Refers to all three. Throws bad_input as convert() does, but for values.
  ConvertPlan(const Checkpoint& checkpoint, const Convertible& model, const ConvertOptions& options);

  std::span<ConvertTarget> targets() { return targets_; }
  const std::string& header() const { return header_; }  // of the new file
  uint64_t bytes() const { return bytes_; }              // of the new file
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  bool is_gguf() const { return checkpoint_.layout() == CheckpointLayout::kGguf; }
  void plan_fields();
  void plan_tensor(const RequestedTensor& requested, const PlannedTensor& planned);
  void plan_copies();
  void note_unused();
  void add(ConvertTarget target);
  void add_table(const RequestedTensor& requested, const std::vector<float>& values);
  void add_computed(const RequestedTensor& requested, const CheckpointTensor& source);
  MergedRows merged_rows(const RequestedTensor& requested);
  void lay_out();

  const Checkpoint& checkpoint_;
  const Convertible& model_;
  const ConvertOptions& options_;
  ConvertImportance importance_;
  OtherFormats other_formats_;
  std::vector<ConvertTarget> targets_;
  std::set<std::string_view> used_;  // tensors of the source that the new file has
  std::map<std::string, std::vector<float>> tables_, computed_;
  gguf::Writer writer_;
  std::string header_;
  uint64_t bytes_ = 0;
  std::vector<std::string> warnings_;
  bool requantized_ = false;
  std::vector<const AdapterPair*> adapter_pairs_;  // that were merged
};

}  // namespace gabbro::llm
