// Keys of the page. Those with Alt work everywhere; "?" shows the list where no text is written.
import { byId } from './dom.js';

const ALT_KEYS = { KeyN: 'newChat', KeyE: 'editLast', KeyR: 'regenerate', KeyS: 'settings', KeyI: 'status' };

const isField = (element) => element.matches('input, textarea, select, [contenteditable]');
const hasDialog = () => document.querySelector('dialog[open]') !== null;

// `actions`: those of ALT_KEYS, and search, stop (true where there was an answer to stop), closeDrawer.
export function startKeyboard(actions) {
  byId('help').addEventListener('click', () => byId('keys').showModal());
  addEventListener('keydown', (event) => {
    if (event.isComposing || hasDialog()) return;
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (event.altKey && !event.ctrlKey && !event.metaKey && ALT_KEYS[event.code]) {
      event.preventDefault();
      actions[ALT_KEYS[event.code]]();
    } else if ((event.ctrlKey || event.metaKey) && event.code === 'KeyK') {
      event.preventDefault();
      actions.search();
    } else if (plain && event.key === 'Escape') {
      if (!byId('status').hidden) actions.status();
      else if (document.body.classList.contains('drawer-open')) actions.closeDrawer();
      else if (!actions.stop()) byId('input').focus();
    } else if (plain && event.key === '?' && !isField(event.target)) {
      byId('keys').showModal();
    }
  });
}
