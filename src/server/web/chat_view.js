// The list of messages: draws what changed, follows the end of an answer, and reads it to screen readers by sentence.
import { byId, h } from './dom.js';
import { MessageView } from './message_view.js';

const NEAR_END = 80;  // pixels
const MOST_SPOKEN = 20;
const SENTENCE = /[^.!?\n]*(?:[.!?]+(?=\s)|\n)/g, LAST_SENTENCE = /[^.!?\n]*(?:[.!?]+(?=\s|$)|\n|$)/g;

export class ChatView {
  #list = byId('messages');
  #views = new Map();
  #follows = true;
  #frame = 0;
  #spoken = 0;  // characters of the answer that were read
  #spokenId = null;

  constructor(actions) {
    this.actions = { ...actions, refresh: () => this.#draw() };
    const scroller = byId('scroller');
    this.scroller = scroller;
    scroller.addEventListener('scroll', () => {
      this.#follows = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_END;
      byId('to-end').hidden = this.#follows;
    }, { passive: true });
    byId('to-end').addEventListener('click', () => this.toEnd());
  }

  open(conversation) {
    this.conversation = conversation;
    this.#views.clear();
    this.#list.replaceChildren();
    this.#spokenId = null;
    this.toEnd();
    this.#draw();
  }

  // Draws with the next frame, however often it is called.
  update() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  toEnd() {
    this.#follows = true;
    this.update();
  }

  editLast() {
    const last = [...this.conversation.path()].reverse().find((message) => message.role === 'user');
    if (last) this.#views.get(last.id).edit();
  }

  #draw() {
    const path = this.conversation.path();
    const elements = path.map((message) => {
      const versions = this.conversation.versions(message);
      let view = this.#views.get(message.id);
      if (view) view.update(versions);
      else this.#views.set(message.id, view = new MessageView(message, versions, this.actions));
      return view.element;
    });
    const shown = [...this.#list.children];
    if (elements.length !== shown.length || elements.some((element, i) => element !== shown[i])) this.#list.replaceChildren(...elements);
    byId('welcome').hidden = path.length > 0;
    if (this.#follows) this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#speak(path.at(-1));
  }

  #speak(message) {
    if (message?.role !== 'assistant') return;
    const isWriting = message.state === 'writing';
    if (this.#spokenId !== message.id) {
      if (!isWriting) return;  // an old answer
      this.#spokenId = message.id;
      this.#spoken = 0;
    }
    const log = byId('spoken');
    const rest = message.text.slice(this.#spoken);
    const sentences = rest.match(isWriting ? SENTENCE : LAST_SENTENCE) ?? [];
    for (const sentence of sentences) {
      this.#spoken += sentence.length;
      const text = sentence.replace(/[*_`#>|~]+/g, ' ').trim();
      if (text) log.append(h('p', {}, text));
    }
    if (!isWriting) this.#spokenId = null;
    while (log.childElementCount > MOST_SPOKEN) log.firstElementChild.remove();
  }
}
