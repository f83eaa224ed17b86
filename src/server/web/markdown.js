// Markdown as DOM nodes, drawn piece by piece while it is written.
import { copyText, h, icon } from './dom.js';
import { highlight } from './highlight.js';
import { parseBlocks } from './markdown_blocks.js';
import { inlineNodes } from './markdown_inline.js';

function codeNode({ language, text }) {
  const copy = h('button', { type: 'button', class: 'quiet', onclick: () => copyText(text, 'The code') }, icon('copy'), 'Copy');
  return h('div', { class: 'code' }, h('div', { class: 'code-head' }, h('span', {}, language || 'code'), copy),
    h('pre', { tabindex: 0, role: 'group', 'aria-label': `Code${language ? `, ${language}` : ''}` }, h('code', {}, ...highlight(text, language))));
}

function listNode(list) {
  const items = list.items.map((item) => {
    const nodes = item.blocks.flatMap((block) => (block.kind === 'paragraph' && !list.loose ? inlineNodes(block.text) : [blockNode(block)]));
    if (item.task === null) return h('li', {}, ...nodes);
    return h('li', { class: 'task' }, h('input', { type: 'checkbox', disabled: true, checked: item.task, 'aria-label': item.task ? 'done' : 'open' }), ' ', ...nodes);
  });
  return h(list.ordered ? 'ol' : 'ul', list.ordered && list.start !== 1 ? { start: list.start } : {}, ...items);
}

function tableNode({ head, align, rows }) {
  const cell = (tag, scope) => (text, i) => h(tag, { class: `align-${align[i] ?? 'left'}`, ...scope }, ...inlineNodes(text));
  return h('div', { class: 'table', tabindex: 0, role: 'group', 'aria-label': 'Table' }, h('table', {},
    h('thead', {}, h('tr', {}, ...head.map(cell('th', { scope: 'col' })))),
    h('tbody', {}, ...rows.map((row) => h('tr', {}, ...row.map(cell('td', {})))))));
}

function blockNode(block) {
  switch (block.kind) {
    case 'code': return codeNode(block);
    // The page has the levels 1 and 2 itself.
    case 'heading': return h(`h${Math.min(6, block.level + 2)}`, { class: `level-${block.level}` }, ...inlineNodes(block.text));
    case 'rule': return h('hr');
    case 'quote': return h('blockquote', {}, ...block.blocks.map(blockNode));
    case 'list': return listNode(block);
    case 'table': return tableNode(block);
    default: return h('p', {}, ...inlineNodes(block.text));
  }
}

// Shows a text that grows. Blocks that are as they were keep their nodes, and the reader's selection.
export class MarkdownView {
  #root;
  #sources = [];

  constructor(root) {
    this.#root = root;
  }

  update(text) {
    const blocks = parseBlocks(text);
    let same = 0;
    while (same < blocks.length && same < this.#sources.length && blocks[same].source === this.#sources[same]) ++same;
    while (this.#root.childNodes.length > same) this.#root.lastChild.remove();
    this.#root.append(...blocks.slice(same).map(blockNode));
    this.#sources = blocks.map((block) => block.source);
  }
}
