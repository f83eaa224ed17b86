// Notices a step of the engine that does not come back: a device that hangs blocks the thread that waits for it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace gabbro::worker {

// A step may take this long whatever its forecast, and this many times its forecast.
inline constexpr std::chrono::seconds kShortestLimit{10};
inline constexpr double kForecastFactor = 20;

// The longest time of a step with this forecast in seconds.
std::chrono::milliseconds step_limit(double forecast);

class StepWatch {
 public:
  // `hangs` is called by a thread of this object, once.
  explicit StepWatch(std::function<void(std::chrono::milliseconds limit)> hangs);
  ~StepWatch();
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

  void begin(std::chrono::milliseconds limit);
  void end();
  // Stops the clock during a step: the thread waits for something else than the device.
  class Pause {
   public:
    explicit Pause(StepWatch& watch);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    StepWatch& watch_;
    const int64_t deadline_, begin_;
  };

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;  // the thread may outlive this object
};

}  // namespace gabbro::worker
