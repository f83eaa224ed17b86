// The page: connects the list of conversations, the chat, the settings and the keyboard.
import { ApiError, setKey } from './api.js';
import { ChatView } from './chat_view.js';
import { Conversation } from './conversation.js';
import { byId, notice } from './dom.js';
import { generationOf } from './generation.js';
import { startKeyboard } from './keyboard.js';
import { chosenModel, drawContext, refreshModels, startModels } from './models.js';
import { openSettings, settings, startSettings } from './settings.js';
import { Sidebar } from './sidebar.js';
import { toggleStatus } from './status.js';
import * as store from './store.js';

const NARROW = matchMedia('(max-width: 800px)');
const OPEN_CHAT = 'gabbro-chat';

let conversation = null;
const input = byId('input');

// Runs a request. Asks for the key where the server wants one, and tries again; other errors are shown.
async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      if (await askKey(error.message)) return attempt(action);
      return null;
    }
    notice(error.message, true);
    return null;
  }
}

let keyDialog = null;  // one at a time, however many requests are refused

function askKey(message) {
  keyDialog ??= new Promise((resolve) => {
    const dialog = byId('key');
    byId('key-message').textContent = message;
    byId('key-input').value = '';
    dialog.returnValue = '';
    dialog.showModal();
    dialog.addEventListener('close', () => {
      keyDialog = null;
      if (dialog.returnValue === 'yes') setKey(byId('key-input').value.trim());
      resolve(dialog.returnValue === 'yes');
    }, { once: true });
  });
  return keyDialog;
}

// --- The chat

function drawControls() {
  const isWriting = Boolean(conversation.writer());
  byId('send').hidden = isWriting;
  byId('stop').hidden = !isWriting;
  byId('title').textContent = conversation.chat.title;
  document.title = conversation.isEmpty() ? 'Gabbro' : `${conversation.chat.title} · Gabbro`;
  const answered = conversation.path().findLast((message) => message.stats.prompt !== undefined);
  drawContext(chosenModel(), answered?.stats);
}

function draw() {
  view.update();
  drawControls();
}

// Called for each piece of an answer; also of one in a chat that is not open.
function onPiece(generation) {
  if (conversation.messages.has(generation.message.id)) draw();
  if (generationOf(generation.message)) return;
  sidebar.refresh();
  if (generation.error instanceof ApiError && generation.error.status === 401) attempt(() => { throw generation.error; });
  attempt(refreshModels).then(drawControls);
}
onPiece.failed = (error) => notice(`The conversation cannot be kept: ${error.message}`, true);

async function answer(parent) {
  if (!chosenModel()) {
    notice('The server has no model: gabbro pull NAME gets one', true);
    return;
  }
  await conversation.startAnswer(parent, chosenModel(), settings(), onPiece);
  view.toEnd();
  draw();
  await sidebar.select(conversation.chat);
}

const actions = {
  async edit(message, text) {
    const version = await conversation.addVersion(message, text);
    if (message.role === 'user') await answer(version);
    draw();
    input.focus();
  },
  async regenerate(message) {
    await answer(conversation.messages.get(message.parent));
  },
  async show(message) {
    await conversation.show(message);
    draw();
    // The buttons of the version that was left are gone.
    document.querySelector(`[data-id="${message.id}"] .versions button:enabled`)?.focus();
  },
};

async function send() {
  const text = input.value.trim();
  if (text === '' || conversation.writer()) return;
  input.value = '';
  fitInput();
  await answer(await conversation.addUser(text));
}

const stop = () => conversation.writer()?.stop();

function show(next) {
  conversation = next;
  sessionStorage.setItem(OPEN_CHAT, next.chat.id);
  view.open(next);
  drawControls();
  closeDrawer();
  if (!NARROW.matches) input.focus();
  return sidebar.select(next.chat);
}

const newChat = () => show(Conversation.create()).then(() => input.focus());

// --- Around it

function setDrawer(isOpen) {
  document.body.classList.toggle('drawer-open', isOpen);
  byId('menu').setAttribute('aria-expanded', String(isOpen));
  byId('sidebar').inert = NARROW.matches && !isOpen;
  byId('main').inert = NARROW.matches && isOpen;
  if (isOpen) byId('search').focus();
}

function closeDrawer() {
  if (document.body.classList.contains('drawer-open')) {
    setDrawer(false);
    byId('menu').focus();
  } else {
    setDrawer(false);
  }
}

function fitInput() {
  input.style.height = 'auto';
  input.style.height = `${Math.min(input.scrollHeight, innerHeight * 0.4)}px`;
}

const view = new ChatView(actions);
const sidebar = new Sidebar({
  async open(chat) {
    await show(await Conversation.open(chat));
  },
  async rename(chat, title) {
    const target = chat.id === conversation.chat.id ? conversation : await Conversation.open(chat);
    await target.rename(title);
    drawControls();
  },
  async remove(chat) {
    if (chat.id === conversation.chat.id) {
      stop();
      await newChat();
    }
    await store.removeChat(chat.id);
  },
});

function listen() {
  byId('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    attempt(send);
  });
  input.addEventListener('keydown', (event) => {
    const isTouch = matchMedia('(pointer: coarse)').matches;
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || isTouch) return;
    event.preventDefault();
    attempt(send);
  });
  input.addEventListener('input', fitInput);
  byId('stop').addEventListener('click', () => {
    stop();
    input.focus();
  });
  // Enter takes the first button of a form that sends it: those that close are none.
  document.querySelectorAll('[data-close]').forEach((button) => button.addEventListener('click', () => button.closest('dialog').close()));
  byId('new-chat').addEventListener('click', newChat);
  byId('menu').addEventListener('click', () => setDrawer(!document.body.classList.contains('drawer-open')));
  byId('backdrop').addEventListener('click', closeDrawer);
  byId('settings-button').addEventListener('click', openSettings);
  byId('status-button').addEventListener('click', () => toggleStatus(attempt));
  byId('status-close').addEventListener('click', () => toggleStatus(attempt));
  byId('model').addEventListener('model', drawControls);
  NARROW.addEventListener('change', () => setDrawer(false));
  startKeyboard({ newChat, stop: () => (conversation.writer() ? (stop(), true) : false), closeDrawer, search: () => (NARROW.matches ? setDrawer(true) : byId('search').focus()),
    editLast: () => view.editLast(), regenerate: () => {
      const last = conversation.path().at(-1);
      if (last?.role === 'assistant' && !conversation.writer()) attempt(() => actions.regenerate(last));
    }, settings: openSettings, status: () => toggleStatus(attempt) });
}

async function start() {
  try {
    await store.open();
  } catch (error) {
    notice(`The browser keeps no conversations here: ${error.message}`, true);
    return;
  }
  await startSettings();
  startModels(attempt);
  listen();
  const opened = sessionStorage.getItem(OPEN_CHAT);
  const chat = (await store.chats()).find(({ id }) => id === opened);
  await show(chat ? await Conversation.open(chat) : Conversation.create());
  document.body.classList.add('ready');
  await attempt(refreshModels);
  drawControls();
}

start();
