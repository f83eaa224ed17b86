// gabbro_survey: one line per GPU, the best first, with fields separated by "|":
//   backend|id|target|name|reason|fix
// `target` is what the kernels are compiled for ("gfx1100", "89"), empty where it is not known; `reason` is empty where
// the kernel lets this user compute on the card. Asks no runtime and loads no plugin.
// gabbro_survey --rocm-trees: one line per folder that ROCm may be installed in, in the order of the search for HIP.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "src/backend/discovery/compute_capability.h"
#include "src/backend/discovery/machine.h"
#include "src/backend/discovery/usability.h"
#include "src/base/hip/folders.h"

namespace {

using namespace gabbro::discovery;

struct Found {
  const Card* card;
  Verdict verdict;
};

// The order of `--device auto`: discrete cards first, then CUDA, then the card with more memory.
auto rank_of(const Found& found) {
  const Card& card = *found.card;
  return std::tuple(!found.verdict.holds(), card.integrated, card.amd(), ~card.pci.vram.total);
}

std::string target_of(const Card& card) {
  if (card.amd()) return card.architecture();
  const int capability = compute_capability(card.pci.device);
  return capability != 0 ? std::to_string(capability) : std::string();
}

// Names come from files of the machine.
std::string field(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '|' || static_cast<unsigned char>(c) < ' ' || c == 127; }, ' ');
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--rocm-trees") == 0) {
    const auto settings = gabbro::hip_search::Settings::of_process();
    for (const std::string& tree : gabbro::hip_search::rocm_trees(settings)) std::puts(tree.c_str());
    return 0;
  }
  const Machine machine = read_machine();
  std::vector<Found> all;
  for (const Card& card : machine.cards) all.push_back({&card, judge_kernel(machine, card)});
  std::ranges::stable_sort(all, {}, rank_of);
  for (const auto& [card, verdict] : all) {
    std::puts(fmt::format("{}|{}|{}|{}|{}|{}", card->backend(), field(card->id()), field(target_of(*card)),
                          field(card->pci.name), field(verdict.reason), field(verdict.fix))
                  .c_str());
  }
  return 0;
}
