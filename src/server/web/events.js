// Server-sent events as text in any pieces.
export class EventReader {
  #rest = '';

  // The events that `text` completes: {data} or {comment}.
  feed(text) {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop();
    const events = [];
    for (const raw of lines) {
      const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
      if (line.startsWith('data:')) events.push({ data: line.slice(line[5] === ' ' ? 6 : 5) });
      else if (line.startsWith(':')) events.push({ comment: line.slice(1).trim() });
    }
    return events;
  }
}
