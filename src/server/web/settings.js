// Settings of answers and of the page. An empty field leaves the choice to the model.
import { byId, h } from './dom.js';
import { putSetting, setting } from './store.js';

// Ranges are those of the server.
const NUMBERS = [
  { name: 'temperature', label: 'Temperature', least: 0, most: 2, step: 0.05, tip: '0 always takes the likeliest token' },
  { name: 'top_p', label: 'Top p', least: 0, most: 1, step: 0.01, tip: 'Share of probability that is kept' },
  { name: 'top_k', label: 'Top k', least: 0, most: 1000, step: 1, tip: 'Number of tokens that are kept; 0: all' },
  { name: 'min_p', label: 'Min p', least: 0, most: 1, step: 0.01, tip: 'Least probability, as a share of the likeliest' },
  { name: 'repeat_penalty', label: 'Repeat penalty', least: 0.01, most: 10, step: 0.01, tip: 'Above 1 makes repetitions rarer' },
  { name: 'max_tokens', label: 'Longest answer', least: 1, most: 1_000_000, step: 1, tip: 'In tokens', empty: 'no limit' },
  { name: 'seed', label: 'Seed', least: 0, most: Number.MAX_SAFE_INTEGER, step: 1, tip: 'The same seed gives the same answer', empty: 'random' },
];

let values = {};

export const settings = () => values;

// Fields of a request.
export function answerFields({ stop, effort, ...rest }) {
  const fields = {};
  for (const { name } of NUMBERS) if (typeof rest[name] === 'number') fields[name] = rest[name];
  if (stop?.length > 0) fields.stop = stop;
  if (effort) fields.reasoning_effort = effort;
  return fields;
}

function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem('gabbro-theme', theme ?? '');
}

function numberField({ name, label, least, most, step, tip, empty = 'model\u2019s own' }) {
  const input = h('input', { id: `set-${name}`, type: 'number', min: least, max: most, step: step < 1 ? 'any' : step, placeholder: empty,
    inputmode: 'decimal', 'aria-describedby': `tip-${name}` });
  return h('div', { class: 'field' }, h('label', { for: `set-${name}` }, label), input, h('small', { id: `tip-${name}` }, tip));
}

function fill() {
  byId('set-system').value = values.system ?? '';
  byId('set-stop').value = (values.stop ?? []).join('\n');
  byId('set-effort').value = values.effort ?? '';
  byId('set-theme').value = values.theme ?? '';
  for (const { name } of NUMBERS) byId(`set-${name}`).value = values[name] ?? '';
}

function read() {
  const next = { system: byId('set-system').value.trim(), stop: byId('set-stop').value.split('\n').filter((line) => line !== ''),
    effort: byId('set-effort').value, theme: byId('set-theme').value };
  for (const { name } of NUMBERS) {
    const { value, valueAsNumber } = byId(`set-${name}`);
    if (value !== '') next[name] = valueAsNumber;
  }
  return next;
}

export function openSettings() {
  const dialog = byId('settings');
  fill();
  dialog.returnValue = '';
  dialog.showModal();
}

export async function startSettings() {
  values = (await setting('answers')) ?? {};
  byId('set-fields').prepend(...NUMBERS.map(numberField));
  const dialog = byId('settings');
  byId('settings-reset').addEventListener('click', () => {
    dialog.querySelectorAll('input, textarea, select').forEach((field) => { field.value = ''; });
  });
  dialog.querySelector('form').addEventListener('submit', () => {
    values = read();
    applyTheme(values.theme);
    putSetting('answers', values);
  });
}
