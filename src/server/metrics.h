// Counters of the server, in the text format of Prometheus.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "src/server/answer/answer.h"

namespace gabbro::server {

class Metrics {
 public:
  // `route`: of the table of routes, never a path of a request.
  void count_request(const std::string& route, const std::string& method, int status, double seconds);
  void count_answer(const std::string& model, const AnswerTotals& totals);
  // True the first time. Names that are long or many count together.
  bool count_unknown_field(const std::string& name);

  std::string text(const std::vector<ModelRegistry::Status>& models, size_t connections) const;

 private:
  struct Model {
    uint64_t answers = 0, prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
    double prefill_seconds = 0, decode_seconds = 0;
  };
  struct Requests {
    uint64_t count = 0;
    double seconds = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Requests> requests_;  // by labels
  std::map<std::string, Model> models_;
  std::map<std::string, uint64_t> unknown_fields_;
};

}  // namespace gabbro::server
