// Elements as nodes: text stays text, and nothing here reads markup.

// Attributes with "on" are listeners; false, null and undefined leave an attribute out.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

// A symbol of index.html. Screen readers skip it: the element around it has the name.
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS(SVG, 'use');
  use.setAttribute('href', `#icon-${name}`);
  svg.append(use);
  return svg;
}

// A button with an icon only; `label` is its name and its tip.
export function iconButton(name, label, onclick, attributes = {}) {
  return h('button', { type: 'button', class: 'icon-button', 'aria-label': label, title: label, onclick, ...attributes }, icon(name));
}

export const byId = (id) => document.getElementById(id);

let noticeTimer = 0;

// One line at the lower edge for some seconds, which screen readers say.
export function notice(text, isError = false) {
  const box = byId('notice');
  box.textContent = text;
  box.classList.toggle('error', isError);
  box.classList.add('shown');
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => box.classList.remove('shown'), isError ? 8000 : 3000);
}

export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notice(`${what} was copied`);
  } catch (error) {
    notice(`The browser does not allow copying: ${error.message}`, true);
  }
}

// Resolves to true or false.
export function confirmAction(question, verb) {
  const dialog = byId('confirm');
  byId('confirm-text').textContent = question;
  byId('confirm-yes').textContent = verb;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}
