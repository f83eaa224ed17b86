// Many requests on one engine: as many at a time as its cache holds, prompts in chunks next to the single tokens of
// those that generate.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>

#include "gabbro/error.h"
#include "src/engine/request.h"
#include "src/engine/runner.h"

namespace gabbro {

struct BatchOptions {
  std::function<void(size_t request)> on_finished{};  // in the order in which they end
  // Gets the error of a request whose token cannot be chosen, such as for logits that are not numbers, or for which the
  // device has no memory; the others go on. Null: run_batch throws it.
  std::function<void(size_t request, const Error& error)> on_failed{};
  const std::atomic<bool>* cancel = nullptr;  // ends all requests within 100 ms
};

// Runs all of them to their end. The greedy tokens of a request are those that it has alone.
void run_batch(const std::shared_ptr<Engine>& engine, std::span<Request> requests, const BatchOptions& options = {});

}  // namespace gabbro
