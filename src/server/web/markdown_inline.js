// Emphasis, code, links and line breaks of one text, as nodes. Tags of HTML stay text, and images become links: a picture
// of another server would tell it what the model wrote.
import { h } from './dom.js';

const DEEPEST = 12;
const SPECIAL = /[\\`*_~[!<h\n]/g;
const LONGEST_LABEL = 2000, LONGEST_EMPHASIS = 1000;  // characters: so that the time does not grow with their square

// An address that may be opened; else null.
export function safeAddress(text) {
  try {
    const url = new URL(text);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

const link = (address, ...children) => h('a', { href: address, target: '_blank', rel: 'noopener noreferrer' }, ...children);

class Inline {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.missing = new Set();  // delimiters that the rest of the text does not have
    this.nodes = [];
    this.plain = '';
  }

  flush() {
    if (this.plain) this.nodes.push(this.plain);
    this.plain = '';
  }

  add(node, end) {
    this.flush();
    this.nodes.push(node);
    return end;
  }

  // The position of `mark` from `from` on, or -1.
  find(mark, from) {
    if (this.missing.has(mark)) return -1;
    const at = this.text.indexOf(mark, from);
    if (at < 0) this.missing.add(mark);
    return at;
  }

  code(at) {
    const run = /^`+/.exec(this.text.slice(at, at + 64))[0];
    let end = this.find(run, at + run.length);
    while (end >= 0 && (this.text[end + run.length] === '`' || this.text[end - 1] === '`')) {
      while (this.text[end] === '`') ++end;
      end = this.find(run, end);
    }
    if (end < 0) return this.literal(at, run.length);
    const inner = this.text.slice(at + run.length, end).replaceAll('\n', ' ');
    return this.add(h('code', {}, /^ .*[^ ].* $/.test(inner) ? inner.slice(1, -1) : inner), end + run.length);
  }

  literal(at, length) {
    this.plain += this.text.slice(at, at + length);
    return at + length;
  }

  emphasis(at) {
    const mark = this.text[at];
    const isDouble = this.text[at + 1] === mark;
    const delimiter = isDouble ? mark + mark : mark;
    const start = at + delimiter.length;
    const isInWord = mark === '_' && /\w/.test(this.text[at - 1] ?? ' ');
    if (isInWord || /^(\s|$)/.test(this.text.slice(start, start + 1)) || (mark === '~' && !isDouble)) return this.literal(at, delimiter.length);
    let end = this.find(delimiter, start);
    while (end >= 0 && end - start <= LONGEST_EMPHASIS && (/\s/.test(this.text[end - 1]) || end === start || (!isDouble && this.text[end + 1] === mark) ||
                        (mark === '_' && /\w/.test(this.text[end + delimiter.length] ?? ' ')))) {
      let next = end + delimiter.length;
      while (!isDouble && this.text[next] === mark) ++next;
      end = this.find(delimiter, next);
    }
    if (end < 0 || end - start > LONGEST_EMPHASIS) return this.literal(at, delimiter.length);
    if (isDouble && this.text[end + 2] === mark) ++end;
    const tag = mark === '~' ? 'del' : isDouble ? 'strong' : 'em';
    return this.add(h(tag, {}, ...inlineNodes(this.text.slice(start, end), this.depth + 1)), end + delimiter.length);
  }

  // [label](address "title")
  reference(at, isImage) {
    const open = at + (isImage ? 2 : 1);
    let level = 1, end = open;
    for (; end < this.text.length && end - open < LONGEST_LABEL && level > 0; ++end) {
      if (this.text[end] === '\\') ++end;
      else if (this.text[end] === '[') ++level;
      else if (this.text[end] === ']') --level;
    }
    const target = level === 0 ? /^\(\s*<?([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)>?(?:\s+["'][^"']*["'])?\s*\)/.exec(this.text.slice(end, end + LONGEST_LABEL)) : null;
    if (!target) return this.literal(at, isImage ? 2 : 1);
    const label = this.text.slice(open, end - 1);
    const address = safeAddress(target[1]);
    const children = isImage ? [`Image: ${label || target[1]}`] : inlineNodes(label, this.depth + 1);
    return this.add(address ? link(address, ...children) : h('span', {}, ...children), end + target[0].length);
  }

  // A bare address, or one in angle brackets.
  address(at) {
    const rest = this.text.slice(at, at + LONGEST_LABEL);
    const match = /^<(https?:\/\/[^\s<>]+)>/.exec(rest) ?? /^(https?:\/\/[^\s<>]*[^\s<>.,;:!?'")\]*_`])/.exec(rest);
    const url = match && !/\w/.test(this.text[at - 1] ?? ' ') ? safeAddress(match[1]) : null;
    return url ? this.add(link(url, match[1]), at + match[0].length) : this.literal(at, 1);
  }

  special(at) {
    const char = this.text[at];
    const next = this.text[at + 1];
    if (char === '\\' && next === '\n') return at + 1;
    if (char === '\\') return /[!-/:-@[-`{-~]/.test(next ?? '') ? this.literal(at + 1, 1) : this.literal(at, 1);
    if (char === '\n') {
      this.plain = this.plain.trimEnd();
      return this.add(h('br'), at + 1);
    }
    if (char === '`') return this.code(at);
    if (char === '[') return this.reference(at, false);
    if (char === '!') return next === '[' ? this.reference(at, true) : this.literal(at, 1);
    if (char === '<' || char === 'h') return this.address(at);
    return this.emphasis(at);
  }

  run() {
    for (let at = 0; at < this.text.length;) {
      SPECIAL.lastIndex = at;
      const found = SPECIAL.exec(this.text);
      const end = found ? found.index : this.text.length;
      this.plain += this.text.slice(at, end);
      at = found ? this.special(end) : end;
    }
    this.flush();
    return this.nodes;
  }
}

export function inlineNodes(text, depth = 0) {
  return depth > DEEPEST ? [text] : new Inline(text, depth).run();
}
