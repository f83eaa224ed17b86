#include "src/engine/batch.h"

#include "src/base/error.h"
#include "src/engine/scheduler.h"

namespace gabbro {

void run_batch(const std::shared_ptr<Engine>& engine, std::span<Request> requests, const BatchOptions& options) {
  Scheduler scheduler(engine);
  std::optional<Error> unhandled;
  for (size_t i = 0; i < requests.size(); ++i) {
    scheduler.add(requests[i], nullptr, [&, i](const Error* error) {
      if (error == nullptr) {
        if (options.on_finished) options.on_finished(i);
      } else if (options.on_failed) {
        options.on_failed(i, *error);
      } else {
        unhandled = *error;
      }
    });
  }
  while (scheduler.step(options.cancel)) {
    if (unhandled) throw *unhandled;
  }
  if (unhandled) throw *unhandled;
}

}  // namespace gabbro
