#include "src/engine/step_tensors.h"

namespace gabbro {

std::vector<Tensor*> tensors_of(llm::Step& step) {
  std::vector<Tensor*> all = {&step.ids, &step.output_rows, &step.copies.rows};
  for (TokenPositions* const places : {&step.places, &step.copies.places}) {
    for (Tensor* const tensor : {&places->positions, &places->sequence, &places->slots, &places->page_table})
      all.push_back(tensor);
  }
  for (Tensor& table : step.page_tables) all.push_back(&table);
  return all;
}

}  // namespace gabbro
