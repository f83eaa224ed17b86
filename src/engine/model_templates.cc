#include "src/engine/model_templates.h"

#include <optional>
#include <string>

#include "src/base/error.h"

namespace gabbro {

ModelTemplates::ModelTemplates(const Checkpoint& checkpoint, const std::shared_ptr<const text::ChatTemplate>& given)
    : plain_(read(checkpoint, given, false)), with_tools_(read(checkpoint, given, true)) {}

const text::ChatTemplate* ModelTemplates::get(bool with_tools) const {
  return (with_tools ? with_tools_ : plain_).get().get();
}

ModelTemplates::Later ModelTemplates::read(const Checkpoint& checkpoint,
                                           const std::shared_ptr<const text::ChatTemplate>& given, bool with_tools) {
  using Template = std::shared_ptr<const text::ChatTemplate>;
  std::promise<Template> known;
  if (given != nullptr) {
    known.set_value(given);
    return known.get_future().share();
  }
  try {
    const auto parse = [](const std::optional<std::string>& source) {
      return source ? std::make_shared<const text::ChatTemplate>(*source) : Template();
    };
    return std::async(std::launch::deferred, parse, checkpoint.chat_template(with_tools)).share();
  } catch (const Error&) {  // the field has another type
    known.set_exception(std::current_exception());
    return known.get_future().share();
  }
}

}  // namespace gabbro
