// The choice of the model, whether it is loaded, and how full its context is.
import { getJson, loadModel } from './api.js';
import { byId, h } from './dom.js';

const CHOICE = 'gabbro-model';
const select = byId('model');

let models = [];
let loading = null;  // the name of a model

export const chosenModel = () => select.value;
export const contextOf = (name) => models.find((model) => model.id === name)?.context_length ?? null;

function draw() {
  const wanted = select.value || localStorage.getItem(CHOICE);
  const options = (isLoaded) => models.filter((model) => model.loaded === isLoaded).map((model) => h('option', { value: model.id }, model.id));
  const group = (label, isLoaded) => {
    const rows = options(isLoaded);
    return rows.length > 0 ? h('optgroup', { label }, ...rows) : null;
  };
  select.replaceChildren(...[group('Loaded', true), group('Not loaded', false)].filter(Boolean));
  if (models.some((model) => model.id === wanted)) select.value = wanted;
  select.disabled = models.length === 0;
  drawState();
}

function drawState() {
  const model = models.find(({ id }) => id === select.value);
  const state = !model ? 'none' : loading === model.id ? 'loading' : model.loaded ? 'loaded' : 'idle';
  const words = { none: 'no model', loading: 'loading…', loaded: 'loaded', idle: 'not loaded' };
  byId('model-state').dataset.state = state;
  byId('model-state-text').textContent = words[state];
  byId('load').hidden = state !== 'idle';
}

export async function refreshModels() {
  const { data } = await getJson('/v1/models');
  models = data.filter((model) => !model.capabilities.includes('embedding'));
  draw();
}

export function startModels(attempt) {
  select.addEventListener('change', () => {
    localStorage.setItem(CHOICE, select.value);
    drawState();
    select.dispatchEvent(new CustomEvent('model', { bubbles: true }));
  });
  byId('load').addEventListener('click', () => attempt(async () => {
    loading = select.value;
    drawState();
    try {
      await loadModel(loading);
    } finally {
      loading = null;
      await refreshModels();
    }
  }));
}

// `stats` of the last answer; its tokens are those that the next request begins with.
export function drawContext(model, stats) {
  const most = contextOf(model);
  const used = stats?.prompt === undefined ? 0 : stats.prompt + stats.generated;
  const meter = byId('context');
  meter.hidden = most === null;
  if (most === null) return;
  const part = Math.min(1, used / most);
  byId('context-bar').setAttribute('stroke-dashoffset', String(100 - 100 * part));
  meter.classList.toggle('full', part > 0.9);
  meter.setAttribute('aria-valuenow', String(Math.round(100 * part)));
  meter.setAttribute('aria-valuetext', `${used} of ${most} tokens`);
  meter.title = `Context: ${used} of ${most} tokens`;
  byId('context-text').textContent = `${Math.round(100 * part)} %`;
}
