// Requests to the server that the page came from. The key stays in this tab.
import { EventReader } from './events.js';

const KEY = 'gabbro-key';

export const setKey = (key) => sessionStorage.setItem(KEY, key);

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function headers() {
  const key = sessionStorage.getItem(KEY);
  return { 'Content-Type': 'application/json', ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function request(path, body, signal) {
  const method = body === undefined ? 'GET' : 'POST';
  let response;
  try {
    response = await fetch(path, { method, headers: headers(), body: body && JSON.stringify(body), signal, cache: 'no-store' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'The server does not answer');
  }
  if (response.ok) return response;
  let message = `The server answers ${response.status}`;
  try {
    const { error } = await response.json();
    message = typeof error === 'string' ? error : error.message;
  } catch { /* the status has to do: the body is not JSON */ }
  throw new ApiError(response.status, message);
}

export const getJson = async (path) => (await request(path)).json();
export const getText = async (path) => (await request(path)).text();
export const loadModel = (model) => request('/api/generate', { model });

// Calls on_piece({text, thought, finish, usage, timings, place}) for what comes. Throws ApiError, or AbortError after
// `signal`.
export async function streamChat(body, signal, onPiece) {
  const response = await request('/v1/chat/completions', { ...body, stream: true, stream_options: { include_usage: true } }, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const events = new EventReader();
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new ApiError(0, 'The connection was closed in the middle of the answer');
    }
    if (piece.done) throw new ApiError(0, 'The answer ended too early');
    for (const { data, comment } of events.feed(piece.value)) {
      if (comment !== undefined) {
        const place = /place (\d+)/.exec(comment);
        if (place) onPiece({ place: Number(place[1]) });
        continue;
      }
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(500, chunk.error.message);
      const choice = chunk.choices?.[0];
      onPiece({ text: choice?.delta?.content ?? '', thought: choice?.delta?.reasoning_content ?? '', finish: choice?.finish_reason ?? null,
        usage: chunk.usage ?? null, timings: chunk.timings ?? null });
    }
  }
}
