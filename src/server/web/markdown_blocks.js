// Markdown as a list of blocks. Lines in, plain objects out; no DOM.

const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*))?$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+|$)/;
const QUOTE = /^ {0,3}> ?/;
const TABLE_RULE = /^\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?$/;
const LONGEST_RULE = 2000;  // characters: the time of the pattern grows with their square
const DEEPEST = 16;  // further levels stay text

const isBlank = (line) => /^\s*$/.test(line);

// The cells of a row; "\|" is a bar of a cell.
function cellsOf(line) {
  const cells = line.trim().replace(/^\||(?<!\\)\|$/g, '').split(/(?<!\\)\|/);
  return cells.map((cell) => cell.trim().replaceAll('\\|', '|'));
}

function alignment(rule) {
  const cell = rule.trim();
  return cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'right') : 'left';
}

const isTableRule = (line) => line.length <= LONGEST_RULE && TABLE_RULE.test(line);
const isTable = (lines, at) => lines[at].includes('|') && at + 1 < lines.length && isTableRule(lines[at + 1].trim()) && cellsOf(lines[at]).length === cellsOf(lines[at + 1]).length;

// A line that ends a paragraph without a blank line before it.
const startsBlock = (lines, at) => FENCE.test(lines[at]) || HEADING.test(lines[at]) || RULE.test(lines[at]) || QUOTE.test(lines[at]) ||
  ITEM.test(lines[at]) || isTable(lines, at);

function readFence(lines, at) {
  const [, indent, mark, info] = FENCE.exec(lines[at]);
  const end = new RegExp(`^\\s*${mark[0]}{${mark.length},}\\s*$`);
  const code = [];
  let next = at + 1;
  while (next < lines.length && !end.test(lines[next])) {
    code.push(lines[next].replace(new RegExp(`^ {0,${indent.length}}`), ''));
    ++next;
  }
  return [{ kind: 'code', language: info.trim().split(/\s+/)[0], text: code.join('\n'), closed: next < lines.length }, next + 1];
}

function readQuote(lines, at, depth) {
  const inner = [];
  while (at < lines.length && (QUOTE.test(lines[at]) || (!isBlank(lines[at]) && !startsBlock(lines, at)))) inner.push(lines[at++].replace(QUOTE, ''));
  return [{ kind: 'quote', blocks: parseLines(inner, depth + 1) }, at];
}

function readList(lines, at, depth) {
  const [, , first] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first);
  const list = { kind: 'list', ordered, start: ordered ? parseInt(first, 10) : 1, items: [], loose: false };
  while (at < lines.length) {
    const match = ITEM.exec(lines[at]);
    if (!match || /\d/.test(match[2]) !== ordered || RULE.test(lines[at])) break;
    const width = match[1].length + match[2].length + 1;
    const inner = [lines[at].slice(Math.min(match[0].length, width + 3))];
    ++at;
    let blank = false;
    while (at < lines.length) {
      const line = lines[at];
      const indent = /^\s*/.exec(line)[0].length;
      if (isBlank(line)) {
        blank = true;
      } else if (indent >= Math.min(width, match[1].length + 2)) {
        blank = false;
      } else if (blank || startsBlock(lines, at)) {
        break;
      }
      inner.push(isBlank(line) ? '' : line.slice(Math.min(indent, width)));
      ++at;
    }
    while (inner.length > 1 && isBlank(inner.at(-1))) {
      inner.pop();
      if (at < lines.length && ITEM.test(lines[at])) list.loose = true;
    }
    const task = /^\[([ xX])\]\s+/.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(task[0].length);
    list.items.push({ blocks: parseLines(inner, depth + 1), task: task ? task[1] !== ' ' : null });
  }
  return [list, at];
}

function readTable(lines, at) {
  const table = { kind: 'table', head: cellsOf(lines[at]), align: cellsOf(lines[at + 1]).map(alignment), rows: [] };
  at += 2;
  while (at < lines.length && lines[at].includes('|') && !isBlank(lines[at])) table.rows.push(cellsOf(lines[at++]).slice(0, table.head.length));
  return [table, at];
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line)) return readFence(lines, at);
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: 'heading', level: heading[1].length, text: (heading[2] ?? '').trim().replace(/(^|\s)#+$/, '') }, at + 1];
  if (RULE.test(line)) return [{ kind: 'rule' }, at + 1];
  if (depth < DEEPEST && QUOTE.test(line)) return readQuote(lines, at, depth);
  if (depth < DEEPEST && ITEM.test(line)) return readList(lines, at, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  const text = [line.trimStart()];
  for (++at; at < lines.length && !isBlank(lines[at]) && !startsBlock(lines, at); ++at) text.push(lines[at].trimStart());
  return [{ kind: 'paragraph', text: text.join('\n') }, at];
}

// Each block keeps the text that it was read from, its source.
function parseLines(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    const [block, next] = readBlock(lines, at, depth);
    blocks.push({ ...block, source: lines.slice(at, next).join('\n') });
    at = next;
  }
  return blocks;
}

export const parseBlocks = (text) => parseLines(text.split(/\r?\n/), 0);
