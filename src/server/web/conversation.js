// The chat that is open: its messages, its branches, and new answers.
import { Generation, generationOf } from './generation.js';
import { answerFields } from './settings.js';
import * as store from './store.js';
import { childrenOf, newestLeaf, pathTo, siblingsOf } from './tree.js';

const LONGEST_TITLE = 60;

const titleOf = (text) => {
  const line = text.trim().split('\n')[0];
  return line.length > LONGEST_TITLE ? `${line.slice(0, LONGEST_TITLE - 1)}…` : line || 'New chat';
};

export class Conversation {
  // A chat that is not kept before its first message.
  static create() {
    const now = Date.now();
    return new Conversation({ id: store.newId(), title: 'New chat', leaf: null, created: now, updated: now }, []);
  }

  static async open(chat) {
    const messages = await store.messagesOf(chat.id);
    for (const message of messages) {
      const writer = generationOf(message);
      if (writer) Object.assign(message, writer.message);
      if (message.state !== 'writing' || writer) continue;
      message.state = 'cut';
      await store.putMessage(message);
    }
    // Those that are being written go on in their own objects.
    return new Conversation(chat, messages.map((message) => generationOf(message)?.message ?? message));
  }

  constructor(chat, messages) {
    this.chat = chat;
    this.messages = new Map(messages.map((message) => [message.id, message]));
  }

  path() {
    return pathTo(this.messages, this.chat.leaf);
  }

  isEmpty() {
    return this.messages.size === 0;
  }

  writer() {
    const last = this.messages.get(this.chat.leaf);
    return last && generationOf(last);
  }

  // Where the message is among the other versions of it.
  versions(message) {
    return siblingsOf(this.messages, message.id);
  }

  async #saveChat() {
    this.chat.updated = Date.now();
    await store.putChat(this.chat);
  }

  async #add(fields) {
    // Later than all others, also when the clock was set back: the order of versions is that of their times.
    const newest = Math.max(0, ...[...this.messages.values()].map((message) => message.created));
    const message = { id: store.newId(), chat: this.chat.id, text: '', thought: '', state: 'done', stats: {}, ...fields,
      created: Math.max(Date.now(), newest + 1) };
    await store.putMessage(message);
    this.messages.set(message.id, message);
    this.chat.leaf = message.id;
    await this.#saveChat();
    return message;
  }

  async rename(title) {
    this.chat.title = title;
    await store.putChat(this.chat);
  }

  async addUser(text, parent = this.chat.leaf) {
    if (this.isEmpty()) this.chat.title = titleOf(text);
    return this.#add({ role: 'user', parent, text });
  }

  // Another version of a message of either side. Its answers stay with the old version.
  addVersion(message, text) {
    const { role, parent, model = null } = message;
    return this.#add({ role, parent, text, model });
  }

  async show(message) {
    this.chat.leaf = newestLeaf(this.messages, message.id);
    await this.#saveChat();
  }

  async startAnswer(parent, model, settings, onChange) {
    const message = await this.#add({ role: 'assistant', parent: parent.id, model });
    const history = pathTo(this.messages, parent.id).filter(({ text }) => text !== '').map(({ role, text }) => ({ role, content: text }));
    if (settings.system) history.unshift({ role: 'system', content: settings.system });
    const generation = new Generation(message, { model, messages: history, ...answerFields(settings) }, onChange);
    generation.run().catch(onChange.failed);
    return generation;
  }

  hasAnswer(message) {
    return childrenOf(this.messages, message.id).length > 0;
  }
}
