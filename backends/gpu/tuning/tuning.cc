#include "backends/gpu/tuning/tuning.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "backends/gpu/api.h"
#include "backends/gpu/facts.h"

namespace gabbro::gpu {
namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && std::string_view(value) == "1";
}

TuningFile file_of(const abi::TuningOptions& options) {
  return TuningFile(options.file == nullptr ? TuningFile::default_path() : options.file);
}

// The measurements of a file, without the verdicts of checks.
TuningTable load(const TuningFile& file, std::string& problem) {
  TuningTable table = file.load(problem);
  std::erase_if(table, [](const auto& entry) {
    return entry.first.second == kGraphVerdict || entry.first.second.starts_with(kCheckPrefix);
  });
  return table;
}

TuningEntry entry_of(const Measurement& measurement) {
  const Measurement::Candidate& chosen = measurement.candidates[measurement.chosen];
  TuningEntry entry{.chosen = chosen.name, .candidates = {}};
  for (const Measurement::Candidate& candidate : measurement.candidates) {
    if (candidate.fit) entry.candidates.emplace_back(candidate.name, candidate.seconds / chosen.seconds);
  }
  return entry;
}

}  // namespace

Tuning::Tuning(const abi::TuningOptions& options, std::function<std::string()> device)
    : mode_(options.mode == abi::Tuning::kKnown && is_set("GABBRO_TUNE") ? abi::Tuning::kMeasureUnknown : options.mode),
      search_(options.search || is_set("GABBRO_MIOPEN_SEARCH")),
      file_(file_of(options)),
      describe_(std::move(device)) {
  table_ = load(file_, problem_);
}

void Tuning::set(const abi::TuningOptions& options) {
  const std::lock_guard lock(mutex_);
  if (TuningFile file = file_of(options); file.path() != file_.path()) {
    std::string problem;
    TuningTable table = load(file, problem), own;
    if (!problem.empty()) throw ApiError(abi::StatusCode::kFailed, problem);
    for (const Measurement& measurement : measured_) own[{device(), measurement.shape}] = entry_of(measurement);
    const bool written = !own.empty() || options.mode != abi::Tuning::kKnown;
    if (written && !file.path().empty()) problem = file.store(own);
    if (!problem.empty()) throw ApiError(abi::StatusCode::kFailed, problem);
    for (auto& [key, entry] : own) table[key] = std::move(entry);
    table_ = std::move(table);
    problem_.clear();
    file_ = std::move(file);
  }
  mode_ = options.mode;
  search_ = options.search;
}

void Tuning::forget() {
  const std::lock_guard lock(mutex_);
  table_.clear();
  measured_.clear();
  hits_ = misses_ = 0;
}

std::string Tuning::file() const {
  const std::lock_guard lock(mutex_);
  return file_.path();
}

const std::string& Tuning::device() const {
  if (device_.empty()) device_ = describe_();
  return device_;
}

bool Tuning::active() const {
  const std::lock_guard lock(mutex_);
  return mode_ != abi::Tuning::kKnown || !table_.empty();
}

std::string Tuning::known_locked(const std::string& shape) const {
  if (table_.empty()) return {};
  const auto found = table_.find({device(), shape});
  return found == table_.end() ? "" : found->second.chosen;
}

std::string Tuning::known(const std::string& shape) const {
  const std::lock_guard lock(mutex_);
  return known_locked(shape);
}

std::string Tuning::look_up(const std::string& shape) {
  const std::lock_guard lock(mutex_);
  std::string candidate = known_locked(shape);
  ++(candidate.empty() ? misses_ : hits_);
  return candidate;
}

bool Tuning::measures(const std::string& shape) const {
  const std::lock_guard lock(mutex_);
  if (mode_ == abi::Tuning::kKnown) return false;
  if (mode_ == abi::Tuning::kMeasureUnknown) return !table_.contains({device(), shape});
  return std::ranges::find(measured_, shape, &Measurement::shape) == measured_.end();
}

bool Tuning::searches(const std::string& shape) const {
  {
    const std::lock_guard lock(mutex_);
    if (!search_) return false;
  }
  return measures(shape);
}

void Tuning::record(Measurement measurement) {
  const std::lock_guard lock(mutex_);
  TuningEntry entry = entry_of(measurement);
  const std::pair key(device(), measurement.shape);
  table_[key] = entry;
  problem_ = file_.path().empty() ? "" : file_.store({{key, std::move(entry)}});
  measured_.push_back(std::move(measurement));
  last_ = std::chrono::steady_clock::now();
}

bool Tuning::measured_within(double seconds) const {
  const std::lock_guard lock(mutex_);
  return last_ && std::chrono::steady_clock::now() - *last_ < std::chrono::duration<double>(seconds);
}

void Tuning::facts(abi::TuningFacts& facts) const {
  const std::lock_guard lock(mutex_);
  facts = {};
  set_text(facts.file, file_.path());
  set_text(facts.problem, problem_);
  facts.mode = mode_;
  facts.search = search_;
  facts.measured = static_cast<int32_t>(measured_.size());
  facts.hits = hits_;
  facts.misses = misses_;
  for (const Measurement& measurement : measured_) facts.seconds += measurement.seconds;
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
  shape.candidate_count = static_cast<int32_t>(std::min<size_t>(own.candidates.size(), abi::kMaxCandidates));
  shape.chosen = static_cast<int32_t>(own.chosen);
  for (int32_t i = 0; i < shape.candidate_count; ++i) {
    const Measurement::Candidate& candidate = own.candidates[static_cast<size_t>(i)];
    set_text(shape.candidates[i].name, candidate.name);
    shape.candidates[i].seconds = candidate.seconds;
    shape.candidates[i].fit = candidate.fit;
  }
  return true;
}

}  // namespace gabbro::gpu
