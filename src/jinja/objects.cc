#include "src/jinja/objects.h"

#include "src/jinja/operators.h"

namespace gabbro::jinja {

std::string Namespace::repr(Runtime& runtime) const {
  const Nested nested(runtime);
  std::string text = "<Namespace {";
  for (const auto& [key, value] : attributes.entries()) {
    if (text.back() != '{') text += ", ";
    text += fmt::format("{}: {}", jinja::repr(runtime, key), jinja::repr(runtime, value));
  }
  return text + "}>";
}

bool Namespace::attribute(Runtime&, std::string_view name, Value* value) {
  const Value* found = attributes.find(name);
  if (found) *value = *found;
  return found != nullptr;
}

std::string RangeObject::repr(Runtime&) const {
  return step_ == 1 ? fmt::format("range({}, {})", start_, stop_)
                    : fmt::format("range({}, {}, {})", start_, stop_, step_);
}

bool RangeObject::item(Runtime&, const Value& key, Value* value) {
  if (!key.is_integer()) return false;
  const int64_t index = key.integer() < 0 ? key.integer() + count_ : key.integer();
  if (index < 0 || index >= count_) return false;
  *value = element(start_, step_, index);
  return true;
}

std::shared_ptr<Iterator> RangeObject::walk(bool backwards) const {
  return std::make_shared<Generator>(
      [start = start_, step = step_, count = count_, backwards, i = int64_t{0}](Runtime&, Value* value) mutable {
        if (i >= count) return false;
        *value = element(start, step, backwards ? count - 1 - i : i);
        ++i;
        return true;
      },
      1);
}

bool RangeObject::equals(Runtime&, const Object& other) const {
  const auto* range = dynamic_cast<const RangeObject*>(&other);
  if (!range || range->count_ != count_) return false;
  return count_ == 0 || (range->start_ == start_ && (count_ == 1 || range->step_ == step_));
}

std::string DictView::type_name() const {
  return part_ == Part::kKeys ? "dict_keys" : part_ == Part::kValues ? "dict_values" : "dict_items";
}

std::string DictView::repr(Runtime& runtime) const {
  std::vector<Value> items;
  const auto iterator = walk(runtime, false);
  for (Value value; iterator->next(runtime, &value);) items.push_back(value);
  return fmt::format("{}({})", type_name(), jinja::repr(runtime, runtime.list(std::move(items))));
}

bool DictView::equals(Runtime& runtime, const Object& other) const {
  const auto* view = dynamic_cast<const DictView*>(&other);
  if (!view || view->part_ != part_ || part_ == Part::kValues) return this == &other;
  if (part_ == Part::kItems) return equal(runtime, Value(dict_), Value(view->dict_));
  if (dict_->size() != view->dict_->size()) return false;
  for (const auto& [key, value] : dict_->entries()) {
    if (!view->dict_->find(runtime, key)) return false;
  }
  return true;
}

std::shared_ptr<Iterator> DictView::walk(Runtime& runtime, bool backwards) const {
  runtime.reserve(128);
  return std::make_shared<Generator>(
      [dict = dict_, part = part_, backwards, i = size_t{0}](Runtime& inner, Value* value) mutable {
        if (i >= dict->size()) return false;
        const auto& [key, item] = dict->entries()[backwards ? dict->size() - 1 - i : i];
        ++i;
        *value = part == Part::kKeys ? key : part == Part::kValues ? item : inner.tuple({key, item});
        return true;
      },
      depth());
}

bool Cycler::attribute(Runtime&, std::string_view name, Value* value) {
  if (name == "current") {
    *value = items_[at_];
    return true;
  }
  if (name != "next" && name != "reset") return false;
  const auto self = std::static_pointer_cast<Cycler>(shared_from_this());
  const bool resets = name == "reset";
  *value = make_object<Function>(
      std::string(name),
      [self, resets](Runtime& runtime, const Args& args) {
        const Bound bound(runtime, "next", args, {});
        const Value current = self->items_[self->at_];
        self->at_ = resets ? 0 : (self->at_ + 1) % self->items_.size();
        return resets ? Value() : current;
      },
      depth_);
  return true;
}

Value Joiner::call(Runtime& runtime, const Args& args) {
  const Bound bound(runtime, "joiner", args, {});
  if (used_) return separator_;
  used_ = true;
  return "";
}

}  // namespace gabbro::jinja
