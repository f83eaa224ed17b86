// The panel of the server: models, devices, memory, queue and speed, each two seconds while it is open.
import { getJson, getText } from './api.js';
import { byId, h } from './dom.js';

const EVERY = 2000;  // ms

// Lines `name{label="value"} number` of Prometheus' format, as rows by name.
export function parseMetrics(text) {
  const rows = {};
  for (const line of text.split('\n')) {
    const match = /^([a-z_]+)(?:\{(.*)\})? ([-+.\deE]+)$/.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...(match[2] ?? '').matchAll(/(\w+)="((?:\\.|[^"\\])*)"/g)].map(([, name, value]) => [name, value.replace(/\\(.)/g, '$1')]));
    (rows[match[1]] ??= []).push({ labels, value: Number(match[3]) });
  }
  return rows;
}

export function bytesText(bytes) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    ++unit;
  }
  return `${unit === 0 ? bytes : bytes.toFixed(1)} ${units[unit]}`;
}

function leavesText(expires) {
  const seconds = Math.round((new Date(expires) - Date.now()) / 1000);
  if (seconds > 1e8) return 'stays';
  return seconds >= 60 ? `leaves in ${Math.ceil(seconds / 60)} min` : `leaves in ${Math.max(0, seconds)} s`;
}

const total = (rows) => (rows ?? []).reduce((sum, row) => sum + row.value, 0);
const facts = (pairs) => h('dl', {}, ...pairs.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));

function modelNode(model, metrics) {
  const of = (name) => total(metrics[name]?.filter((row) => row.labels.model === model.model));
  const seconds = of('gabbro_generation_seconds_total');
  const speed = seconds > 0 ? `${(of('gabbro_generated_tokens_total') / seconds).toFixed(1)} tokens/s` : '–';
  const prompt = of('gabbro_prompt_tokens_total');
  const cached = prompt > 0 ? `${Math.round(100 * of('gabbro_cached_tokens_total') / prompt)} %` : '–';
  return h('section', { class: 'card' }, h('h3', {}, model.model), facts([
    ['Device', model.device], ['Memory', bytesText(model.size)], ['Context', model.context_length ? `${model.context_length} tokens` : '–'],
    ['Running', String(of('gabbro_requests_running'))], ['Waiting', String(of('gabbro_requests_waiting'))],
    ['Speed of answers', speed], ['Prompts from the cache', cached], ['Keep-alive', leavesText(model.expires_at)]]));
}

async function draw() {
  const [{ models }, text, { version }] = await Promise.all([getJson('/api/ps'), getText('/metrics'), getJson('/version')]);
  const metrics = parseMetrics(text);
  byId('status-content').replaceChildren(
    h('section', { class: 'card' }, h('h3', {}, 'Server'), facts([
      ['Version', version], ['Connections', String(total(metrics.gabbro_connections))],
      ['Running', String(total(metrics.gabbro_requests_running))], ['Waiting', String(total(metrics.gabbro_requests_waiting))],
      ['Answers', String(total(metrics.gabbro_answers_total))], ['Generated', `${total(metrics.gabbro_generated_tokens_total)} tokens`],
      ['Largest memory', bytesText(total(metrics.process_max_resident_memory_bytes))]])),
    ...models.map((model) => modelNode(model, metrics)));
  if (models.length === 0) byId('status-content').append(h('p', { class: 'nothing' }, 'No model is loaded.'));
}

let timer = 0;

// `attempt` runs a request and reports its errors.
export function toggleStatus(attempt) {
  const panel = byId('status');
  panel.hidden = !panel.hidden;
  byId('status-button').setAttribute('aria-expanded', String(!panel.hidden));
  clearInterval(timer);
  if (panel.hidden) {
    byId('status-button').focus();
    return;
  }
  attempt(draw);
  timer = setInterval(() => draw().catch((error) => {
    byId('status-content').replaceChildren(h('p', { class: 'nothing' }, error.message));
  }), EVERY);
  byId('status-close').focus();
}
