#include "python/src/views.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "python/src/assignment.h"
#include "python/src/layout_writes.h"
#include "python/src/nn.h"
#include "src/base/error.h"
#include "src/graph/history.h"
#include "src/ops/grad.h"
#include "src/ops/op_table.h"
#include "src/plan/eval.h"

namespace gabbro::python {
namespace {

// An object that shares elements with others, as the state of its tensor knows it: the root, which all of them are
// views of, or a view. Guarded by the GIL.
struct Relation {
  Tensor* place = nullptr;  // null: the object is gone
  std::shared_ptr<Relation> root, parent;
  std::vector<std::shared_ptr<Node>> steps;  // the view ops from the parent's value to this one
  bool is_data = false;                      // without the history that the parent had: detach()
  std::shared_ptr<void> next;                // another relation of the same state

  std::shared_ptr<void> owner;  // of a root that is a member of a C++ module: lives as long as the relation

  // The root has: the relations whose objects live, and its value if its own object does not.
  Relation *first = nullptr, *last = nullptr;
  Tensor value;
  bool is_memory = false, is_writable = true;
  std::vector<std::weak_ptr<TensorState>> sharing;  // the tensors that may have values in that memory
  const void* memory = nullptr;                     // its address
  size_t most_sharing = 64;                         // then those that are gone are left out

  Relation *before = nullptr, *after = nullptr;  // in the root's list
  Tensor fresh;                                  // while a write goes through the list

  ~Relation();
  bool is_root() const { return parent == nullptr; }
};

// The roots with memory of other libraries, by the memory. Guarded by the GIL.
std::unordered_map<const void*, Relation*>& memories() {
  static auto& known = *new std::unordered_map<const void*, Relation*>;  // lives as long as the process
  return known;
}

Relation::~Relation() {
  if (memory == nullptr) return;
  const auto found = memories().find(memory);
  if (found != memories().end() && found->second == this) memories().erase(found);
}

void add_sharing(Relation& root, const std::shared_ptr<TensorState>& state) {
  if (root.sharing.size() >= root.most_sharing) {
    std::erase_if(root.sharing, [](const std::weak_ptr<TensorState>& known) { return known.expired(); });
    root.most_sharing = std::max<size_t>(64, 2 * root.sharing.size());
  }
  root.sharing.push_back(state);
}

std::shared_ptr<Relation> relation_of(const Tensor& place) {
  auto relation = std::static_pointer_cast<Relation>(place.state().attachment.held);
  while (relation != nullptr && relation->place != &place)
    relation = std::static_pointer_cast<Relation>(relation->next);
  return relation;
}

void attach(const Tensor& place, const std::shared_ptr<Relation>& relation) {
  relation->next = std::exchange(place.state().attachment.held, relation);
  if (relation->root->is_memory) add_sharing(*relation->root, place.shared_state());
}

void detach_from(TensorState& state, const Relation& relation) {
  std::shared_ptr<void>* at = &state.attachment.held;
  while (*at != nullptr && at->get() != &relation) at = &static_cast<Relation*>(at->get())->next;
  if (*at == nullptr) return;
  std::shared_ptr<void> next = relation.next;
  *at = std::move(next);  // which may destroy the relation
}

void enlist(Relation& relation) {
  Relation& root = *relation.root;
  relation.before = root.last;
  (root.last == nullptr ? root.first : root.last->after) = &relation;
  root.last = &relation;
}

void delist(Relation& relation) {
  Relation& root = *relation.root;
  (relation.before == nullptr ? root.first : relation.before->after) = relation.after;
  (relation.after == nullptr ? root.last : relation.after->before) = relation.before;
  relation.before = relation.after = nullptr;
}

// Ends the relation of an object that lives.
void dissolve(Relation& relation) {
  const std::shared_ptr<void> owner = std::move(relation.owner);  // goes last
  delist(relation);
  Tensor& place = *std::exchange(relation.place, nullptr);
  detach_from(place.state(), relation);
}

std::shared_ptr<Relation> root_at(Tensor& place) {
  auto root = std::make_shared<Relation>();
  root->place = &place;
  root->root = std::shared_ptr<Relation>(std::shared_ptr<void>(), root.get());  // without a cycle
  attach(place, root);
  enlist(*root);
  return root;
}

void link(Tensor& base, Tensor& view, const std::shared_ptr<void>& owner) {
  if (view.shape().elements() == 0 || view.spec().packed || is_quantized(view.dtype())) return;
  if (&view.state() == &base.state()) {  // the whole: another tensor, so that each object has one
    view = record(kIdentity, {base});
  }
  std::vector<std::shared_ptr<Node>> steps = steps_between(base, view);
  if (steps.empty()) return;
  std::shared_ptr<Relation> parent = relation_of(base);
  if (parent == nullptr) {
    parent = root_at(base);
    parent->owner = owner;
  }
  auto relation = std::make_shared<Relation>();
  relation->place = &view;
  relation->root = parent->is_root() ? parent : parent->root;
  relation->steps = std::move(steps);
  relation->is_data = needs_gradient(base) && !needs_gradient(view);
  relation->parent = std::move(parent);
  attach(view, relation);
  enlist(*relation);
}

// Positions of the elements in the root's, which are in row-major order; none where the view is a copy of them.
std::optional<Layout> layout_of(const Relation& relation, const Shape& root) {
  if (relation.is_root()) return Layout::contiguous(root);
  std::optional<Layout> layout = layout_of(*relation.parent, root);
  for (const std::shared_ptr<Node>& node : relation.steps) {
    if (!layout) break;
    layout = node->op->view(*layout, node->outputs[0].shape, node->attributes);
  }
  return layout;
}

bool is_data(const Relation& relation) {
  return relation.is_data || (!relation.is_root() && is_data(*relation.parent));
}

// The value of a relation that follows from the root's fresh one.
const Tensor& refreshed(Relation& relation) {
  if (relation.fresh.defined()) return relation.fresh;
  Tensor value = refreshed(*relation.parent);
  const GradientMode mode(gradients_enabled() && !relation.is_data);
  for (std::shared_ptr<Node>& node : relation.steps) {
    value = record(*node->op, {value}, node->attributes);
    node = value.state().node;
  }
  return relation.fresh = value;
}

// A write of a trace: the place's value before, or the root's whose object is gone.
struct Written {
  std::shared_ptr<Relation> relation;
  Tensor before;
};
std::vector<Written>* journal = nullptr;  // of the trace that runs

void move_relation(const std::shared_ptr<Relation>& relation, const Tensor& value) {
  Tensor& place = *relation->place;
  if (&place.state() == &value.state()) return;
  detach_from(place.state(), *relation);
  place = value;
  attach(place, relation);
}

// A leaf stays one, with its gradient; `as_data`: what was computed keeps its history.
void give(const std::shared_ptr<Relation>& relation, Tensor value, bool as_data) {
  const Tensor before = *relation->place;
  if (journal != nullptr) journal->push_back({relation, before});
  const std::shared_ptr<History> history = before.state().history;
  const bool leaf = history != nullptr && is_leaf(before);
  if (leaf) {
    value = detach(value);
    value.state().history = std::make_shared<History>(History{.gradient = history->gradient});
  } else if (history != nullptr && (as_data || !needs_gradient(value))) {
    value = with_history_of(before, value, as_data);
  }
  move_relation(relation, value);
}

// Puts the value into the memory that the root shares with another library. The tensors that had values there, which
// others may still read, get separate memory.
Tensor moved_into_memory(Relation& root, const Tensor& before, const Tensor& value) {
  require_no_trace();
  evaluate(value);
  auto state = std::make_shared<TensorState>();
  state->spec = before.spec();
  state->device = before.device();
  state->layout = before.state().layout;
  state->storage = before.state().storage;
  for (const std::weak_ptr<TensorState>& known : std::exchange(root.sharing, {})) {
    const std::shared_ptr<TensorState> old = known.lock();
    if (old == nullptr || old->node != nullptr || old->storage != state->storage) continue;
    const Tensor kept = copy_in_memory(Tensor(old));
    old->storage = kept.state().storage;
    old->layout = kept.state().layout;
  }
  copy_elements(value.state(), *state);
  if (needs_gradient(value)) {  // the history goes on with the tensor in the memory
    const Tensor computed = is_leaf(value) ? record(kIdentity, {value}) : value;
    state->history = computed.state().history;
    state->history->node->made[static_cast<size_t>(state->history->output)] = state;
  }
  return Tensor(std::move(state));
}

void write(const char* op, const std::shared_ptr<Relation>& relation, const Tensor& value, bool as_data) {
  const std::shared_ptr<Relation> root = relation->is_root() ? relation : relation->root;
  const Tensor base = root->place != nullptr ? *root->place : root->value;
  const std::optional<Layout> layout = layout_of(*relation, base.shape());
  if (!layout) {  // a reshape that copies
    Tensor& place = *relation->place;
    dissolve(*relation);
    place = value;
    return;
  }
  if (repeats_elements(*layout)) {
    throw bad_input(
        "[{}] in place: the tensor of shape {} has an element in several positions (broadcast): copy it first", op,
        value.shape().to_string());
  }
  as_data |= is_data(*relation) || !gradients_enabled();
  for (Relation* other = root->first; other != nullptr; other = other->after) {
    const Tensor& place = *other->place;
    if (as_data || other == relation.get() || !needs_gradient(place) || !is_leaf(place) || !gradients_enabled())
      continue;
    throw bad_input(
        "[{}] in place: a view of a {} tensor of shape {} that requires a gradient and was not computed; "
        "change it under no_grad()",
        op, dtype_public_name(place.dtype()), place.shape().to_string());
  }
  if (root->is_memory && !root->is_writable)
    throw bad_input("[{}] in place: the tensor of shape {} shares memory that is read-only: copy it first", op,
                    base.shape().to_string());
  const GradientMode mode(gradients_enabled() && !as_data);
  Tensor whole = with_elements(op, as_data ? detach(base) : base, *layout, as_data ? detach(value) : value);
  if (root->is_memory) whole = moved_into_memory(*root, base, whole);
  root->fresh = whole;
  std::vector<std::pair<std::shared_ptr<Relation>, Tensor>> values;
  for (Relation* other = root->first; other != nullptr; other = other->after) {
    const Tensor& fresh = refreshed(*other);
    values.emplace_back(relation_of(*other->place), other == relation.get() && !root->is_memory ? value : fresh);
  }
  for (const auto& [other, _] : values)
    for (Relation* up = other.get(); up != nullptr; up = up->parent.get()) up->fresh = Tensor();
  root->fresh = Tensor();
  if (root->place == nullptr) {
    if (journal != nullptr) journal->push_back({root, root->value});
    root->value = whole;
    if (root->is_memory) add_sharing(*root, whole.shared_state());  // which pending views read
  }
  for (const auto& [other, fresh] : values) give(other, fresh, as_data);
}

}  // namespace

void ViewOfFirst::postcall(PyObject** args, size_t count, nb::handle result) {
  if (count == 0 || !result.is_valid() || !nb::isinstance<Tensor>(args[0])) return;
  Tensor& base = *nb::inst_ptr<Tensor>(args[0]);
  const bool is_member = !nb::inst_state(args[0]).second;  // the object goes before the tensor does
  std::shared_ptr<void> owner = is_member ? owner_of_member(base) : nullptr;
  if (is_member && owner == nullptr) owner = nb::cast<std::shared_ptr<Tensor>>(nb::handle(args[0]));  // a gradient
  const auto link_to = [&](nb::handle view) {
    if (view.ptr() != args[0] && nb::isinstance<Tensor>(view)) link(base, *nb::inst_ptr<Tensor>(view), owner);
  };
  if (nb::isinstance<Tensor>(result)) return link_to(result);
  if (!nb::isinstance<nb::list>(result) && !nb::isinstance<nb::tuple>(result)) return;
  for (nb::handle view : nb::borrow<nb::sequence>(result)) link_to(view);
}

void link_memory(nb::handle object, bool is_writable) {
  Tensor& place = *nb::inst_ptr<Tensor>(object);
  const std::shared_ptr<Relation> root = root_at(place);
  root->is_memory = true;
  root->is_writable = is_writable;
  add_sharing(*root, place.shared_state());
  root->memory = place.state().storage.get();
  memories()[root->memory] = root.get();
}

void note_memory(const std::shared_ptr<TensorState>& state) {
  if (memories().empty()) return;
  const auto found = memories().find(state->storage.get());
  if (found != memories().end()) add_sharing(*found->second, state);
}

Tensor with_history_of(const Tensor& before, const Tensor& value, bool passes) {
  const GradientMode mode(true);
  const Tensor result = record(kIdentity, {value, before});
  result.state().history->node->gradient = [passes](const GradientArgs& args) {
    const Tensor& gradient = args.gradients[0];
    return Gradients{Tensor(), passes ? gradient : zeros_like(gradient)};
  };
  return result;
}

bool has_relatives(const Tensor& place) {
  return place.state().attachment.held != nullptr && relation_of(place) != nullptr;
}

bool are_relatives(const Tensor& a, const Tensor& b) {
  const auto root = [](const Tensor& place) -> const Relation* {
    const std::shared_ptr<Relation> relation = relation_of(place);
    return relation == nullptr ? nullptr : relation->root.get();
  };
  return root(a) != nullptr && root(a) == root(b);
}

void write_to_relatives(const char* op, Tensor& place, const Tensor& value, bool as_data) {
  write(op, relation_of(place), value, as_data);
}

UndoWrites::UndoWrites() : before_(std::exchange(journal, new std::vector<Written>)) {}

UndoWrites::~UndoWrites() {
  const std::unique_ptr<std::vector<Written>> writes(
      std::exchange(journal, static_cast<std::vector<Written>*>(before_)));
  while (!writes->empty()) {
    const auto& [relation, value] = writes->back();
    if (relation->place != nullptr) {
      move_relation(relation, value);
    } else if (relation->is_root()) {
      relation->value = value;
    }
    writes->pop_back();
  }
}

void replace_handle(Tensor& place, const Tensor& handle) {
  const std::shared_ptr<Relation> relation = relation_of(place);
  if (relation == nullptr) {
    place = handle;
  } else {
    move_relation(relation, handle);
  }
}

void FollowedSlots::add(const std::vector<nn::Slot>& slots) {
  for (const nn::Slot& slot : slots)
    if (slot.tensor->defined() && has_relatives(*slot.tensor)) followed_.emplace_back(*slot.tensor);
}

void FollowedSlots::follow() const {
  for (const Followed& followed : followed_) followed.follow();
}

Followed::Followed(Tensor& place) : place_(&place), relation_(place.defined() ? relation_of(place) : nullptr) {
  if (relation_ != nullptr) before_ = place;
}

void Followed::follow() const {
  const auto relation = std::static_pointer_cast<Relation>(relation_);
  if (relation == nullptr || relation->place != place_ || &place_->state() == &before_.state()) return;
  detach_from(before_.state(), *relation);
  attach(*place_, relation);
  write("assignment", relation, Tensor(*place_), true);
}

void forget_place(Tensor& place) {
  if (!place.defined() || place.state().attachment.held == nullptr) return;
  const std::shared_ptr<Relation> relation = relation_of(place);
  if (relation == nullptr || relation->owner != nullptr) return;
  const std::shared_ptr<Relation> root = relation->is_root() ? relation : relation->root;
  const Tensor last = place;
  delist(*relation);
  relation->place = nullptr;
  detach_from(place.state(), *relation);
  if (root->first == nullptr) {
    root->value = Tensor();
  } else if (root->first == root->last && !root->is_memory) {  // no one is left to see its writes
    dissolve(*root->first);
    root->value = Tensor();
  } else if (relation == root) {
    bool data = true;  // a graph for gradients is not kept for those that have no part in it
    for (const Relation* other = root->first; other != nullptr; other = other->after) data &= is_data(*other);
    root->value = data && needs_gradient(last) ? detach(last) : last;
  }
}

}  // namespace gabbro::python
