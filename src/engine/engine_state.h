// The inside of Engine: what its sessions share. Private to src/engine.
#pragma once

#include <memory>
#include <mutex>

#include "gabbro/engine/engine.h"
#include "src/engine/cache/engine_cache.h"
#include "src/engine/decode_plans.h"
#include "src/engine/loaded_model.h"
#include "src/engine/model_pass.h"

namespace gabbro {

struct Engine::State {
  LoadedModel loaded;
  EngineCache cache;
  DecodePlans plans{loaded, cache};
  std::unique_ptr<ModelPass> pass;
  std::mutex mutex;  // one step at a time

  void make_cache();  // after all else
};

}  // namespace gabbro
