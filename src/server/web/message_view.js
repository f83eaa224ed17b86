// One message of the chat: text, thoughts, figures, and what can be done with it.
import { copyText, h, icon, iconButton } from './dom.js';
import { generationOf } from './generation.js';
import { MarkdownView } from './markdown.js';

const STATES = { stopped: 'Stopped', cut: 'Cut by a reload', failed: 'Failed' };

function statsNodes({ model, stats }) {
  const parts = [];
  if (stats.perSecond) parts.push(`${stats.perSecond.toFixed(1)} tokens/s`);
  if (stats.generated !== undefined) parts.push(`${stats.generated} tokens`);
  if (stats.first !== undefined) parts.push(`first after ${stats.first.toFixed(2)} s`);
  if (stats.cached) parts.push(`${stats.cached} of ${stats.prompt} cached`);
  if (stats.finish === 'length') parts.push('ended by its length');
  const text = parts.join(' · ');
  return [text, model ? h('span', { class: 'wide-only' }, text ? ` · ${model}` : model) : null];
}

export class MessageView {
  #markdown = null;
  #isRaw = false;
  #editor = null;
  #thoughts = null;  // {title, text} from the first one on

  // `actions`: edit(message, text), regenerate(message), show(message).
  constructor(message, versions, actions) {
    this.message = message;
    this.actions = actions;
    const isUser = message.role === 'user';
    this.body = h('div', { class: 'text' });
    this.state = h('p', { class: 'state' });
    this.foot = h('div', { class: 'message-foot' });
    this.element = h('article', { class: `message ${message.role}`, 'aria-label': isUser ? 'You' : 'Answer', 'data-id': message.id },
      this.body, this.foot);
    this.#markdown = new MarkdownView(this.body);
    this.update(versions);
  }

  // What the foot shows, so that it is drawn only when it changes: the keyboard's place in it would be lost.
  #footKey = '';

  update(versions) {
    const { message } = this;
    const generation = generationOf(message);
    this.element.classList.toggle('writing', Boolean(generation));
    if (!this.#editor) this.#drawText();
    this.#drawThoughts(generation);
    this.#drawState(generation);
    const key = JSON.stringify([Boolean(generation), versions.index, versions.all.length, message.stats, this.#isRaw, Boolean(this.#editor)]);
    if (key === this.#footKey) return;
    this.#footKey = key;
    this.#drawFoot(generation, versions);
  }

  #drawText() {
    if (this.message.role === 'user' || this.#isRaw) {
      if (this.body.textContent !== this.message.text) this.body.textContent = this.message.text;
      this.body.classList.add('raw');
    } else {
      this.body.classList.remove('raw');
      this.#markdown.update(this.message.text);
    }
  }

  #drawThoughts(generation) {
    const { thought, text, stats } = this.message;
    if (thought === '') return;
    if (!this.#thoughts) {
      this.#thoughts = { text: h('div', { class: 'thought-text' }), title: h('span') };
      this.body.before(h('details', { class: 'thoughts' }, h('summary', {}, icon('chevron'), this.#thoughts.title), this.#thoughts.text));
    }
    this.#thoughts.text.textContent = thought.trim();
    this.#thoughts.title.textContent = generation && text === '' ? 'Thinking…' : stats.thought > 0.1 ? `Thought for ${stats.thought.toFixed(1)} s` : 'Thoughts';
  }

  #drawState(generation) {
    const { message } = this;
    const isSilent = generation && message.text === '' && message.thought === '';
    const text = isSilent ? `${generation.phase}…` : STATES[message.state];
    if (text) this.foot.before(this.state);
    else this.state.remove();
    this.state.classList.toggle('error', message.state === 'failed');
    this.state.classList.toggle('pending', Boolean(isSilent));
    this.state.textContent = message.state === 'failed' ? `${text}: ${message.error}` : text ?? '';
  }

  #drawFoot(generation, { all, index }) {
    const { message, actions } = this;
    const isUser = message.role === 'user';
    const nodes = [];
    if (all.length > 1) {
      nodes.push(h('div', { class: 'versions', role: 'group', 'aria-label': 'Versions' },
        iconButton('left', 'Previous version', () => actions.show(all[index - 1]), { disabled: index === 0 }),
        h('span', {}, `${index + 1} / ${all.length}`),
        iconButton('right', 'Next version', () => actions.show(all[index + 1]), { disabled: index === all.length - 1 })));
    }
    if (!generation && !this.#editor) {
      nodes.push(iconButton('copy', isUser ? 'Copy message' : 'Copy answer', () => copyText(message.text, isUser ? 'The message' : 'The answer')));
      nodes.push(iconButton('edit', isUser ? 'Edit message' : 'Edit answer', () => this.edit()));
      if (!isUser) {
        nodes.push(iconButton('again', 'Regenerate', () => actions.regenerate(message)));
        nodes.push(iconButton('raw', 'Show the text as written', () => this.#toggleRaw(), { 'aria-pressed': String(this.#isRaw) }));
      }
    }
    if (!isUser) nodes.push(h('span', { class: 'stats' }, generation ? [] : statsNodes(message)));
    this.foot.replaceChildren(...nodes);
  }

  #toggleRaw() {
    this.#isRaw = !this.#isRaw;
    this.body.replaceChildren();
    this.#markdown = new MarkdownView(this.body);
    this.#footKey = '';
    this.actions.refresh();
    this.foot.querySelector('[aria-pressed]')?.focus();
  }

  edit() {
    if (this.#editor) return;
    const isUser = this.message.role === 'user';
    const area = h('textarea', { class: 'editor', 'aria-label': isUser ? 'Your message' : 'The answer', rows: Math.min(20, this.message.text.split('\n').length + 1) });
    area.value = this.message.text;
    const finish = (saves) => {
      const text = area.value.trim();
      this.#editor = null;
      this.#markdown = new MarkdownView(this.body);
      this.body.replaceChildren();
      this.#footKey = '';
      this.actions.refresh();
      if (saves && text !== '' && (isUser || text !== this.message.text)) this.actions.edit(this.message, text);
      else this.foot.querySelector('[aria-label^="Edit"]')?.focus();
    };
    area.addEventListener('keydown', (event) => {
      if (event.isComposing) return;
      if (event.key === 'Escape' || (event.key === 'Enter' && (event.ctrlKey || event.metaKey))) {
        event.preventDefault();
        event.stopPropagation();
        finish(event.key === 'Enter');
      }
    });
    this.#editor = h('div', { class: 'editing' }, area, h('div', { class: 'editing-buttons' },
      h('button', { type: 'button', onclick: () => finish(false) }, 'Cancel'),
      h('button', { type: 'button', class: 'primary', title: 'Ctrl+Enter', onclick: () => finish(true) }, isUser ? 'Send' : 'Save')));
    this.body.classList.remove('raw');
    this.body.replaceChildren(this.#editor);
    this.#footKey = '';
    this.actions.refresh();
    area.focus();
  }
}
