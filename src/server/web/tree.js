// A chat is a tree of messages: an edit or another answer is a further child of the same parent. Pure functions on a Map
// from id to message; the first messages have the parent null.

export function childrenOf(messages, parent) {
  const children = [...messages.values()].filter((message) => message.parent === parent);
  return children.sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1));
}

// From the first message to `leaf`.
export function pathTo(messages, leaf) {
  const path = [];
  for (let at = messages.get(leaf); at !== undefined && path.length <= messages.size; at = messages.get(at.parent)) path.unshift(at);
  return path;
}

// The end of the branch that goes through `id`, always by the newest child.
export function newestLeaf(messages, id) {
  for (let children = childrenOf(messages, id); children.length > 0; children = childrenOf(messages, id)) id = children.at(-1).id;
  return id;
}

export function siblingsOf(messages, id) {
  const all = childrenOf(messages, messages.get(id).parent);
  return { all, index: all.findIndex((message) => message.id === id) };
}
