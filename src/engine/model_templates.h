// The chat templates of a model's file: the one for all conversations, and one for those with tools.
#pragma once

#include <future>
#include <memory>

#include "src/formats/checkpoint.h"
#include "src/text/chat/chat_template.h"

namespace gabbro {

class ModelTemplates {
 public:
  ModelTemplates() = default;
  // `given`, where it is not null, takes the place of both.
  ModelTemplates(const Checkpoint& checkpoint, const std::shared_ptr<const text::ChatTemplate>& given);

  // Null where the file has none. Parsed by the first call: a template that is wrong is a bad_input of each call.
  const text::ChatTemplate* get(bool with_tools) const;

 private:
  using Later = std::shared_future<std::shared_ptr<const text::ChatTemplate>>;  // deferred: holds errors too
  static Later read(const Checkpoint& checkpoint, const std::shared_ptr<const text::ChatTemplate>& given,
                    bool with_tools);

  Later plain_, with_tools_;
};

}  // namespace gabbro
