// Answers that are being written. Each is saved while it grows, so that a reload costs little of it.
import { streamChat } from './api.js';
import { putMessage } from './store.js';

const SAVE_EVERY = 300;  // ms

const running = new Map();  // from the id of a message

export const generationOf = (message) => running.get(message.id);

addEventListener('pagehide', () => running.forEach((generation) => generation.save()));

export class Generation {
  #controller = new AbortController();
  #body;
  #onChange;
  #start = performance.now();
  #saved = 0;
  phase = 'Waiting for the server';  // until the first token

  // `onChange` is called for each piece of `message`, and at its end.
  constructor(message, body, onChange) {
    this.message = message;
    this.#body = body;
    this.#onChange = onChange;
  }

  stop() {
    this.#controller.abort();
  }

  save() {
    this.#saved = performance.now();
    return putMessage(this.message);
  }

  async run() {
    const { message } = this;
    running.set(message.id, this);
    message.state = 'writing';
    try {
      await this.save();
      await streamChat(this.#body, this.#controller.signal, (piece) => this.#take(piece));
      message.state = 'done';
    } catch (error) {
      message.state = error.name === 'AbortError' ? 'stopped' : 'failed';
      if (message.state === 'failed') message.error = error.message;
      this.error = error;
    }
    running.delete(message.id);
    message.stats.seconds = this.#seconds();
    await this.save();
    this.#onChange(this);
  }

  #seconds() {
    return (performance.now() - this.#start) / 1000;
  }

  #take({ text, thought, finish, usage, timings, place }) {
    const { message } = this;
    const { stats } = message;
    if (place) this.phase = `Waiting, place ${place} in the queue`;
    if (thought || text) stats.first ??= this.#seconds();
    if (thought) message.thought += thought;
    if (text) {
      if (message.thought && !message.text) stats.thought = this.#seconds() - stats.first;
      message.text += text;
      stats.pieces = (stats.pieces ?? 0) + 1;
    }
    if (finish) stats.finish = finish;
    if (usage) Object.assign(stats, { prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details?.cached_tokens ?? 0, generated: usage.completion_tokens });
    if (timings?.predicted_per_second) stats.perSecond = timings.predicted_per_second;
    if (performance.now() - this.#saved > SAVE_EVERY) this.save().catch((error) => { this.error = error; });
    this.#onChange(this);
  }
}
