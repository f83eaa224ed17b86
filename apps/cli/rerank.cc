// `rerank`: documents in the order of how well they answer a query.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/cli/commands.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_list.h"

namespace gabbro::cli {
namespace {

struct RerankArguments {
  CommonOptions common;
  std::string model;
  std::string query;
  TextList documents;
  int64_t top = 0;
  RerankOptions rerank;
};

int run(RerankArguments& o) {
  const std::vector<std::string> documents = read_texts(o.documents);
  const auto encoder = load_encoder(o.model, o.common);
  const Cancelable cancelable;
  o.rerank.cancel = cancelable.flag();
  std::vector<float> scores;
  {
    ProgressBar bar("reranking", documents.size() > static_cast<size_t>(o.rerank.batch));
    o.rerank.progress = [&](double share) { bar.show(share); };
    scores = encoder->rerank(o.query, documents, o.rerank);
  }
  std::vector<size_t> order(documents.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return scores[i]; });
  if (o.top > 0 && o.top < std::ssize(order)) order.resize(static_cast<size_t>(o.top));
  if (o.common.json) {
    nlohmann::ordered_json document = {{"model", encoder->facts().name},
                                       {"device", encoder->facts().device_id},
                                       {"results", nlohmann::ordered_json::array()}};
    for (const size_t i : order)
      document["results"].push_back({{"index", i}, {"score", scores[i]}, {"document", documents[i]}});
    print_json(document);
    return 0;
  }
  std::string lines;
  for (const size_t i : order) lines += fmt::format("{:.6f}\t{}\t{}\n", scores[i], i + 1, printable(documents[i]));
  print(lines);
  return 0;
}

}  // namespace

void add_rerank(Command root) {
  Command command = root.subcommand("rerank", "Order documents by how well they answer a query");
  const auto o = std::make_shared<RerankArguments>();
  add_model(command, o->model);
  command.option("QUERY", o->query, "The query").takes_text().alias("-q,--query").required();
  add_texts(command, o->documents, "DOCUMENT", "The documents");
  command.number("-n,--top-n", o->top, "Print only the best; 0: all").range(0, 1 << 30);
  command
      .option("--instruction", o->rerank.instruction,
              "What makes a document an answer, of models that are told (Qwen 3)")
      .placeholder("TEXT");
  command.flag("--raw-scores", o->rerank.raw, "Print the classifier's logits, without the sigmoid");
  command.number("--batch", o->rerank.batch, "Documents that are computed together").range(1, 1 << 16);
  command.flag("--truncate", o->rerank.truncated, "Cut texts that are too long; else they are refused");
  add_device_options(command, o->common);
  add_check_weights(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro rerank MODEL \"What is basalt?\" \"Basalt is a rock.\" \"The sea is deep.\"");
  command.example("gabbro rerank MODEL \"What is basalt?\" --file documents.txt --top-n 3");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
