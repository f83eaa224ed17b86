// Conversations as a file, and back. What a file has is checked: it may come from anybody.
import * as store from './store.js';

const FORMAT = 'gabbro-conversations', VERSION = 1;

export async function exportedText() {
  const [chats, messages] = await Promise.all([store.chats(), store.allMessages()]);
  const rows = chats.map((chat) => ({ ...chat, messages: messages.filter((message) => message.chat === chat.id).sort((a, b) => a.created - b.created) }));
  return { text: JSON.stringify({ format: FORMAT, version: VERSION, exported: new Date().toISOString(), chats: rows }, null, 1), count: rows.length };
}

const STATES = ['done', 'stopped', 'cut', 'failed'];
const timeOf = (value) => (Number.isFinite(value) ? value : Date.now());

function readStats(given) {
  const entries = Object.entries(given ?? {}).filter(([name, value]) => Number.isFinite(value) || (name === 'finish' && typeof value === 'string'));
  return Object.fromEntries(entries);
}

function readMessage(row, chat) {
  if (typeof row?.id !== 'string' || typeof row.text !== 'string' || !['user', 'assistant'].includes(row.role)) throw new Error('a message is not whole');
  return { id: row.id, chat, parent: typeof row.parent === 'string' ? row.parent : null, role: row.role, text: row.text,
    thought: typeof row.thought === 'string' ? row.thought : '', state: STATES.includes(row.state) ? row.state : 'done',
    error: String(row.error ?? ''), model: typeof row.model === 'string' ? row.model : null, stats: readStats(row.stats), created: timeOf(row.created) };
}

// Each message follows from a first one: else a branch would have no end.
function checkTree(messages) {
  const parents = new Map(messages.map(({ id, parent }) => [id, parent]));
  for (const { id } of messages) {
    let steps = 0;
    for (let at = id; at !== null; at = parents.get(at)) {
      if (!parents.has(at) || ++steps > messages.length) throw new Error('the order of its messages is broken');
    }
  }
}

// Adds the conversations of an exported file; those that are there already stay as they are. Returns how many it added.
export async function importChats(text) {
  const content = JSON.parse(text);
  if (content?.format !== FORMAT || !Array.isArray(content.chats)) throw new Error('it has no conversations of Gabbro');
  if (content.version !== VERSION) throw new Error(`its version is ${content.version}, and this page reads ${VERSION}`);
  const known = new Set((await store.chats()).map((chat) => chat.id));
  const ids = new Set((await store.allMessages()).map((message) => message.id));
  const chats = [], messages = [];
  for (const given of content.chats) {
    if (typeof given?.id !== 'string' || typeof given.title !== 'string' || !Array.isArray(given.messages)) throw new Error('a conversation is not whole');
    if (known.has(given.id)) continue;
    const rows = given.messages.map((row) => readMessage(row, given.id));
    checkTree(rows);
    for (const { id } of rows) {
      if (ids.has(id)) throw new Error('a message is there twice');
      ids.add(id);
    }
    known.add(given.id);
    const leaf = rows.some(({ id }) => id === given.leaf) ? given.leaf : rows.at(-1)?.id ?? null;
    chats.push({ id: given.id, title: given.title, leaf, created: timeOf(given.created), updated: timeOf(given.updated) });
    messages.push(...rows);
  }
  await store.putAll(chats, messages);
  return chats.length;
}
