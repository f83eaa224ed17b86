// The part of a model that one of several processes holds, as mpirun has started them. All processes make the same
// steps of the same requests; they exchange sums, hidden states and logits. Private to src/engine.
#pragma once

#include <memory>
#include <string>

#include "src/engine/model_needs.h"
#include "src/formats/checkpoint.h"
#include "src/models/llm/model.h"
#include "src/models/weights/tensor_shard.h"

namespace gabbro {

struct LoadedModel;  // loaded_model.h
struct LoadOptions;  // gabbro/engine/engine.h

namespace processes {

struct ProcessPart {
  std::unique_ptr<const llm::TensorShard> shard;  // null: the process has whole layers
  llm::LayerRange layers;                         // of a process without a shard
};

// Loads this process's part onto loaded.device, with the options of a model on one device. Throws bad_input for what a
// split model cannot have, and what mpi::Ranks throws.
void load_part(const Checkpoint& checkpoint, const LoadOptions& wanted, const ModelNeeds& needs,
               llm::LoadModelOptions options, LoadedModel& loaded);

// "rank 0 of 2 (layers 0-15), Open MPI v4.1.4"
std::string describe(const ProcessPart& part);

}  // namespace processes
}  // namespace gabbro
