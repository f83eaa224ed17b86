// Colors for code: comments, texts, numbers and words that most languages reserve.
import { h } from './dom.js';

const HASH = /^(py|python|sh|bash|zsh|shell|console|fish|rb|ruby|r|yaml|yml|toml|ini|conf|make|makefile|cmake|dockerfile|containerfile|perl|nix|elixir)$/;
const DASHES = /^(sql|lua|haskell|hs|ada|vhdl|elm)$/;
const PLAIN = /^(|text|txt|plain|plaintext|output|log|diff|md|markdown|csv)$/;
const LONGEST = 50_000;  // characters; longer code stays plain, so that each piece of a stream is shown at once

const WORDS = new Set(('and as async await bool break case catch char class const constexpr continue def default defer del delete do double elif else ' +
  'end enum except export extends extern false final finally float fn for from func function global if impl implements import in include inline int ' +
  'interface is lambda let long loop match mod module mut namespace new nil None nonlocal not null nullptr of or package pass private protected pub ' +
  'public raise return self short signed sizeof static std string struct super switch template then this throw trait True False true try type typedef ' +
  'typename typeof undefined union unsigned unsafe use using var virtual void where while with yield select insert update create table join order by ' +
  'group values into set local fi done esac echo').split(' '));

const STRING = /"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*`?/.source;
const REST = /\b(?:0[xX][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\w*|[A-Za-z_]\w*/.source;

function patternOf(language) {
  const comment = HASH.test(language) ? '#[^\\n]*' : DASHES.test(language) ? '--[^\\n]*' : '\\/\\/[^\\n]*|\\/\\*[^]*?(?:\\*\\/|$)|<!--[^]*?(?:-->|$)';
  return new RegExp(`(${comment})|(${STRING})|(${REST})`, 'g');
}

function classOf(match) {
  if (match[1] !== undefined) return 'c';
  if (match[2] !== undefined) return 's';
  if (/\d/.test(match[3][0])) return 'n';
  return WORDS.has(match[3]) ? 'k' : null;
}

// Nodes of a code block.
export function highlight(code, language) {
  const name = language.toLowerCase();
  if (PLAIN.test(name) || code.length > LONGEST) return [code];
  const nodes = [];
  let from = 0;
  for (const match of code.matchAll(patternOf(name))) {
    const kind = classOf(match);
    if (kind === null) continue;
    nodes.push(code.slice(from, match.index), h('span', { class: `hl-${kind}` }, match[0]));
    from = match.index + match[0].length;
  }
  return [...nodes, code.slice(from)];
}
