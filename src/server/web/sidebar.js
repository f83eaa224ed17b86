// The list of conversations: search, rename, delete, export and import.
import { byId, confirmAction, h, iconButton, notice } from './dom.js';
import * as store from './store.js';
import { exportedText, importChats } from './transfer.js';

const SNIPPET = 60;  // characters around a hit
const DAY = 86_400_000;

function groupOf(time) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (time >= today) return 'Today';
  if (time >= today - DAY) return 'Yesterday';
  return time >= today - 7 * DAY ? 'Last week' : 'Earlier';
}

function snippetOf(text, word) {
  const at = text.toLowerCase().indexOf(word);
  const from = Math.max(0, at - SNIPPET / 2);
  return `${from > 0 ? '…' : ''}${text.slice(from, at + word.length + SNIPPET / 2).replaceAll('\n', ' ')}…`;
}

export class Sidebar {
  #list = byId('chats');
  #current = null;
  #search = byId('search');

  // `actions`: open(chat), removed(chat), created().
  constructor(actions) {
    this.actions = actions;
    let timer = 0;
    this.#search.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.refresh(), 120);
    });
    this.#search.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.#search.value) {
        event.stopPropagation();
        this.#search.value = '';
        this.refresh();
      } else if (event.key === 'ArrowDown') {
        event.preventDefault();
        this.#list.querySelector('.chat-link')?.focus();
      }
    });
    this.#list.addEventListener('keydown', (event) => this.#move(event));
    byId('export').addEventListener('click', () => this.exportAll().catch((error) => notice(`The export failed: ${error.message}`, true)));
    byId('import').addEventListener('click', () => byId('import-file').click());
    byId('import-file').addEventListener('change', (event) => this.#importFile(event.target));
  }

  select(chat) {
    this.#current = chat.id;
    return this.refresh();
  }

  async refresh() {
    const word = this.#search.value.trim().toLowerCase();
    let chats = (await store.chats()).sort((a, b) => b.updated - a.updated);
    const snippets = new Map();
    if (word) {
      for (const message of await store.allMessages()) {
        if (!snippets.has(message.chat) && message.text.toLowerCase().includes(word)) snippets.set(message.chat, snippetOf(message.text, word));
      }
      chats = chats.filter((chat) => snippets.has(chat.id) || chat.title.toLowerCase().includes(word));
    }
    const groups = [];
    for (const chat of chats) {
      const name = word ? `${chats.length} found` : groupOf(chat.updated);
      if (groups.at(-1)?.name !== name) groups.push({ name, rows: [] });
      groups.at(-1).rows.push(this.#row(chat, snippets.get(chat.id)));
    }
    const hadFocus = this.#list.contains(document.activeElement);
    this.#list.replaceChildren(...groups.map(({ name, rows }) => h('section', {}, h('h2', {}, name), h('ul', {}, ...rows))));
    if (chats.length === 0) this.#list.append(h('p', { class: 'nothing' }, word ? 'Nothing was found.' : 'No conversations yet.'));
    if (hadFocus) this.#list.querySelector('[aria-current]')?.focus();
  }

  #row(chat, snippet) {
    const isCurrent = chat.id === this.#current;
    const link = h('button', { type: 'button', class: 'chat-link', 'aria-current': isCurrent ? 'page' : null, onclick: () => this.actions.open(chat) },
      h('span', { class: 'chat-title' }, chat.title), snippet ? h('small', {}, snippet) : null);
    const row = h('li', { class: isCurrent ? 'current' : '' }, link,
      iconButton('edit', `Rename ${chat.title}`, () => this.#rename(chat, row)),
      iconButton('delete', `Delete ${chat.title}`, () => this.#remove(chat)));
    return row;
  }

  #move(event) {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
    const links = [...this.#list.querySelectorAll('.chat-link')];
    const at = links.indexOf(document.activeElement);
    if (at < 0) return;
    event.preventDefault();
    const next = links[at + (event.key === 'ArrowDown' ? 1 : -1)];
    if (next) next.focus();
    else if (at === 0) this.#search.focus();
  }

  #rename(chat, row) {
    const input = h('input', { type: 'text', class: 'rename', 'aria-label': 'Name of the conversation', maxlength: 200 });
    input.value = chat.title;
    let isOver = false;
    const finish = async (saves) => {
      if (isOver) return;
      isOver = true;
      const title = input.value.trim();
      if (saves && title) await this.actions.rename(chat, title);
      await this.refresh();
    };
    input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== 'Escape') return;
      event.preventDefault();
      event.stopPropagation();
      finish(event.key === 'Enter');
    });
    input.addEventListener('blur', () => finish(true));
    row.replaceChildren(input);
    input.select();
  }

  async #remove(chat) {
    if (!await confirmAction(`Delete “${chat.title}”?`, 'Delete')) return;
    await this.actions.remove(chat);
    await this.refresh();
  }

  async exportAll() {
    const { text, count } = await exportedText();
    const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
    h('a', { href: url, download: `gabbro-chats-${new Date().toISOString().slice(0, 10)}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    notice(`${count} conversations were exported`);
  }

  async #importFile(input) {
    const [file] = input.files;
    input.value = '';
    if (!file) return;
    try {
      notice(`${await importChats(await file.text())} conversations were imported`);
    } catch (error) {
      notice(`${file.name} cannot be imported: ${error.message}`, true);
    }
    await this.refresh();
  }
}
