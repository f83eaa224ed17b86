#include "backends/gpu/tuning.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "backends/gpu/facts.h"

namespace gabbro::gpu {
namespace {

abi::Tuning effective(abi::Tuning mode) {
  const char* wanted = std::getenv("GABBRO_TUNE");
  const bool asked = wanted != nullptr && std::string_view(wanted) == "1";
  return mode == abi::Tuning::kKnown && asked ? abi::Tuning::kMeasureUnknown : mode;
}

}  // namespace

Tuning::Tuning(abi::Tuning mode, std::string path, std::function<std::string()> device)
    : mode_(effective(mode)), file_(std::move(path)), describe_(std::move(device)) {
  table_ = file_.load(problem_);
}

const std::string& Tuning::device() const {
  if (device_.empty()) device_ = describe_();
  return device_;
}

bool Tuning::active() const {
  const std::lock_guard lock(mutex_);
  return mode_ != abi::Tuning::kKnown || !table_.empty();
}

std::string Tuning::known(const std::string& shape) const {
  const std::lock_guard lock(mutex_);
  if (table_.empty()) return {};
  const auto found = table_.find({device(), shape});
  return found == table_.end() ? "" : found->second.chosen;
}

bool Tuning::measures(const std::string& shape) const {
  const std::lock_guard lock(mutex_);
  if (mode_ == abi::Tuning::kKnown) return false;
  if (mode_ == abi::Tuning::kMeasureUnknown) return !table_.contains({device(), shape});
  return std::ranges::find(measured_, shape, &Measurement::shape) == measured_.end();
}

void Tuning::record(Measurement measurement) {
  const std::lock_guard lock(mutex_);
  TuningEntry entry{.chosen = measurement.ways[measurement.chosen].name, .ways = {}};
  for (const Measurement::Way& way : measurement.ways) {
    if (way.fit) entry.ways.emplace_back(way.name, way.seconds);
  }
  const std::pair key(device(), measurement.shape);
  table_[key] = entry;
  problem_ = file_.path().empty() ? "" : file_.store({{key, std::move(entry)}});
  measured_.push_back(std::move(measurement));
}

void Tuning::facts(abi::TuningFacts& facts) const {
  const std::lock_guard lock(mutex_);
  facts = {};
  set_text(facts.file, file_.path());
  set_text(facts.problem, problem_);
  facts.measured = static_cast<int32_t>(measured_.size());
  if (!table_.empty()) {
    facts.known = static_cast<int32_t>(
        std::ranges::count_if(table_, [&](const auto& entry) { return entry.first.first == device(); }));
  }
}

bool Tuning::measured(size_t number, abi::MeasuredShape& shape) const {
  const std::lock_guard lock(mutex_);
  if (number >= measured_.size()) return false;
  const Measurement& own = measured_[number];
  shape = {};
  set_text(shape.shape, own.shape);
  shape.way_count = static_cast<int32_t>(std::min<size_t>(own.ways.size(), abi::kMaxWays));
  shape.chosen = static_cast<int32_t>(own.chosen);
  for (int32_t i = 0; i < shape.way_count; ++i) {
    const Measurement::Way& way = own.ways[static_cast<size_t>(i)];
    set_text(shape.ways[i].name, way.name);
    shape.ways[i].seconds = way.seconds;
    shape.ways[i].fit = way.fit;
  }
  return true;
}

}  // namespace gabbro::gpu
