"""Writes the fixtures of the Jinja interpreter, with what Jinja2 makes of them:

    TZ=UTC python3 make_template_fixtures.py     (Jinja2 3.1.6)

tests/data/templates/snippets.json: small expressions and statements. tests/data/templates/renders.json: every *.jinja
of that folder over the conversations of conversations.py.
"""

import itertools
import json
import pathlib

from conversations import cases
from jinja_reference import NOW, make_environment, render

FOLDER = pathlib.Path(__file__).parent.parent / "data" / "templates"
VARIABLES = {
    "s": "Hello, Wörld!\n two  lines ", "n": 7, "f": 2.5, "t": True, "nothing": None, "l": [3, 1, 2], "e": [],
    "d": {"b": 1, "a": [1, {"x": "y\"'"}], "C": None}, "w": ["b", "A", "c", "a"],
    "m": [{"role": "user", "n": 2, "o": {"k": 1}}, {"role": "system", "n": 1}, {"role": "User", "n": 2, "o": {"k": 0}}],
}

ATOMS = ["1", "0", "-3", "2.5", "true", "none", "'ab'", "'3'", "''", "[1, 'x']", "(1, 2)", "{'k': 1}", "undef", "l", "s"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", "in", "and", "or"]
FILTERS = [
    "upper", "lower", "title", "capitalize", "trim", "length", "first", "last", "list", "string", "int", "float", "abs",
    "round", "sum", "min", "max", "sort", "reverse|list", "unique|list", "join('-')", "tojson", "tojson(indent=2)",
    "wordcount", "default('D')", "default('D', true)", "items|list", "dictsort", "batch(2, '-')|list", "slice(2)|list",
    "indent", "center(9)", "truncate(8, true, '..', 0)", "replace('l', 'L')", "map('string')|list", "select|list",
    "reject('none')|list", "e", "urlencode", "format", "striptags", "filesizeformat", "count", "xmlattr", "wordwrap(5)",
]
TESTS = [
    "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping",
    "sequence", "iterable", "callable", "odd", "even", "divisibleby 3", "lower", "upper", "in [1, 'ab']", "eq 1",
    "sameas true", "not none", "gt 0", "filter", "escaped",
]
TEXTS = ["'aXbXc'", "'  pad '", "'Ünï ß'", "'12'", "''", "'tab\\tand\\nline'"]
METHODS = [
    "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "strip()", "lstrip()", "rstrip()",
    "strip(' a')", "split()", "split('X')", "split('X', 1)", "rsplit('X', 1)", "rsplit(none, 1)", "split(maxsplit=1)",
    "splitlines()", "splitlines(true)", "partition('X')", "rpartition('X')", "find('X')", "rfind('X')", "find('c', -1)",
    "count('X')", "index('a')", "startswith('a')", "startswith(('b', 'a'))", "endswith('c')", "replace('X', '')",
    "replace('', '.', 2)", "isdigit()", "isalpha()", "isalnum()", "isspace()", "islower()", "isupper()", "isnumeric()",
    "isdecimal()", "istitle()", "isidentifier()", "isascii()", "isprintable()", "zfill(5)", "ljust(6, '.')",
    "rjust(6)", "center(7, '*')", "removeprefix('a')", "removesuffix('c')", "join(['p', 'q'])", "join([1])",
    "expandtabs(4)", "format(1)", "encode", "nothing",
]
SLICES = ["[0]", "[-1]", "[99]", "[1:]", "[:-1]", "[::-1]", "[::2]", "[-2:]", "[5:1:-2]", "['x']", "[1:none]", "[::0]"]
FORMATS = [
    "'%s' % 1", "'%5d|%-5d|%05d|%+d' % (1, 2, 3, 4)", "'%.2f %e %g' % (1.5, 1.5, 1.5)", "'%x %X %o %#x' % (255, 255, 8, 255)",
    "'%(a)s-%(b)r' % {'a': 1, 'b': 'q'}", "'%s' % (1, 2)", "'%d' % 'x'", "'%5s|%-5s|' % ('a', 'b')", "'%%' % ()", "'%c' % 65",
    "'{} {}'.format(1, 'b')", "'{0}{1}{0}'.format('a', 'b')", "'{a} {b[k]}'.format(a=1, b={'k': 2})", "'{:>6}|{:<6}|{:^6}'.format(1, 'b', 'c')",
    "'{:06.2f}|{:,}|{:x}|{:e}|{:%}'.format(3.14159, 1234567, 255, 12345.678, 0.25)", "'{!r:>5}'.format('a')", "'{'.format()", "'{}'.format()",
    "'{{}}'.format()", "'{:*^7}'.format('ü')", "'{:+d}'.format(5)", "'{:d}'.format('a')", "'%.3s' % 'abcdef'", "'%*d' % (5, 3)",
]
EXTRA = [
    "{{ 10**15 }} {{ 1e16 }} {{ 1e15 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 100000.0 }} {{ 1/3 }}",
    "{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5e3 }} {{ 1_0.5 }}", "{{ 012 }}", "{{ 'a' 'b' \"c\" }}",
    "{{ 'a\\n\\t\\\\\\'\\x41\\u00e9\\101\\q' }}", "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }}", "{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}",
    "{{ not 1 == 2 }} {{ 1 not in l }} {{ 'x' if false }}|{{ 'x' if true else 'y' }}", "{{ l[0] ~ l.0 }}", "{{ d.a[1].x }} {{ d['a'] }} {{ d.items }}",
    "{{ d.get('zz', 5) }} {{ d.keys()|list }} {{ d.values() }} {{ d.items() }}", "{{ l.append(1) }}", "{{ d.update({}) }}", "{{ d.pop }}", "{{ s.__class__ }}",
    "{{ undef.x }}", "{{ d.missing.x }}", "{{ none.x.y }}", "{{ l[9].x }}", "{{ undef + 1 }}", "{{ undef() }}", "{{ d.missing }}|{{ undef }}|",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for x in l if x > 1 %}{{ x }}{{ loop.last }}{{ loop.length }}{% else %}none{% endfor %}", "{% for x in e %}x{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for a, b in [[1, 2], [3]] %}{{ a }}{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.cycle('o', 'e') }}{{ loop.changed(x > 2) }}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if loop.index == 3 %}{% break %}{% endif %}{% else %}E{% endfor %}",
    "{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}:{{ loop.depth }}{% endif %}{% endfor %}",
    "{% set ns = namespace(a=1) %}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}{{ ns }}{{ ns.b }}", "{% set d.a = 1 %}",
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}", "{% if t %}{% set q = 5 %}{% endif %}{{ q }}", "{% set a, b = 1, 2 %}{{ b }}{{ a }}",
    "{% set x %}in {{ n }}{% endset %}[{{ x }}]", "{% set x | upper %}in{% endset %}{{ x }}", "{% filter upper | replace('A', 'x') %}abc{% endfilter %}",
    "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(1, 2, 3, 4) }}{{ m(a=5, z=6) }}",
    "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m() }}{{ m.name }}{{ m.arguments }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}",
    "{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) m(3) %}{{ y * 2 }}{% endcall %}", "{% macro m() %}x{% endmacro %}{% call m() %}{% endcall %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% raw %}{{ x }}{% endraw %}{# c #}|", "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a  {{- 1 -}}  b", "a {%- if t -%} b {%- endif -%} c", " {%+ if t %}x{% endif +%}\n y",
    "{{ 1 }}\n{# c #}\n  {#- c -#}  z\n", "{% generation %}a{% set q = 1 %}{% endgeneration %}{{ q }}", "{% block b %}x{{ n }}{% endblock %}", "{% print 1, 2 %}",
    "{{ range(3) }}{{ range(1, 9, 3)|list }}{{ range(3)|last }}{{ range(2)[1] }}", "{{ range(1000000) }}", "{{ range(3, 0, -1)|list }}", "{{ dict(a=1, b=2) }}{{ dict([('x', 1)]) }}",
    "{% set j = joiner('|') %}{{ j() }}{{ j() }}{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.current }}{{ c.next() }}", "{{ raise_exception('boom') }}", "{{ strftime_now('%Y-%m-%d %d %B') }}",
    "{{ m|map(attribute='role')|join(',') }}", "{{ m|map(attribute='o.k', default='-')|list }}", "{{ m|selectattr('role', 'equalto', 'user')|list|length }}", "{{ m|rejectattr('o')|list }}",
    "{{ m|selectattr('n', 'gt', 1)|map(attribute='role')|list }}", "{{ m|groupby('role') }}", "{% for g in m|groupby('n') %}{{ g.grouper }}{{ g.list|length }}{% endfor %}", "{{ m|sort(attribute='n,role')|map(attribute='role')|list }}",
    "{{ m|sum(attribute='n') }}", "{{ w|sort }}{{ w|sort(case_sensitive=true) }}{{ w|sort(reverse=true) }}", "{{ w|unique|list }}", "{{ w|max }}{{ w|min }}", "{{ m|map('upper')|first }}", "{{ m|map('nope')|list }}",
    "{{ (m|map('upper')) is string }}", "{{ m|map(attribute='n')|length }}", "{{ 1|nope }}", "{% if false %}{{ 1|nope }}{% endif %}", "{{ 1 is nope }}", "{{ x", "{% if %}", "{% for x in %}", "{% endif %}", "{% if t %}", "{{ 'a }}", "{{ (1 }}",
    "{{ 1 ! 2 }}", "{% foo %}", "{{ [1,2 }}", "{{ f(a=1, 2) }}", "{% set %}", "{% include 'x' %}", "{% break %}", "{{ {'a': 1, 'b': [none, true, 1.0]}|tojson }}", "{{ d|tojson(sort_keys=true, separators=(',', ':')) }}",
    "{{ 'é\\u2028\"'|tojson(ensure_ascii=true) }}", "{{ undef|tojson }}", "{{ 2.567|round(2) }}{{ 2.5|round }}{{ 3.5|round }}{{ 2.1|round(0, 'ceil') }}{{ 25|round(-1) }}", "{{ '0x1A'|int(0, 16) }}{{ '3.9'|int }}{{ 'x'|int(-1) }}{{ '1_0'|int }}",
    "{{ [1, 2, 3, 4, 5]|batch(2)|list }}{{ [1, 2, 3, 4, 5]|slice(3)|list }}", "{{ [[1, 2], [3]]|sum(start=[]) }}", "{{ 'a\nb\n\nc'|indent(2) }}|{{ 'a\nb'|indent('> ', true, true) }}", "{{ [1, [2, ('x',), {'k': none}]] }}", "{{ \"it's\" }}{{ [\"it's\", 'q\"', 'b\\\\', '\\x00'] }}",
    "{{ l|attr('count') is callable }}{{ d|attr('b') }}|", "{{ l.index(1) }}{{ l.count(3) }}", "{{ 'x' in undef }}{{ undef == undef2 }}{{ none == undef }}", "{{ 'a' < 1 }}", "{{ [1] < [1, 2] }}", "{{ 5 // 0 }}", "{{ 7 // -2 }}{{ -7 % 3 }}{{ 7.5 // 2 }}{{ -7.5 % 2 }}",
    "{{ {[]: 1} }}", "{{ [*l] }}", "{{ dict(**d) }}", "{{ 'a'.join(*[['x', 'y']]) }}", "{{ 1 if t else 2 if f else 3 }}", "{{ (1,) }}{{ () }}{{ (1, 2)[0] }}", "{{ -n|abs }}{{ (-n)|abs }}", "{{ n is odd and f is float }}", "{{ not t }}{{ not undef }}", "{{ s|length }}{{ s[7:12] }}{{ s.strip()[-1] }}",
]

# `safe` and `escape` return markupsafe's Markup: it escapes operands, although nothing is escaped by itself.
MARKUP = "('<b> a,b </b>'|safe)"
MARKUP_FILTERS = FILTERS + [
    "safe", "forceescape", "escape|escape", "indent(2)", "indent(2, true, true)", "indent('<')", "center(20)", "trim(' <')",
    "truncate(9)", "truncate(9, true, '&', 0)", "wordwrap(6)", "wordwrap(6, wrapstring='<')", "join", "map('upper')|list",
    "batch(3)|list", "replace('b', '<')", "urlencode|e", "list|tojson", "tojson|e", "attr('upper')()", "title ~ 'x'",
    "groupby(0)", "last ~ '<'", "default('x')", "first is escaped", "last is escaped", "reverse is escaped", "striptags is escaped",
    "replace('a', '<!-->b--> <!-- <i>')|striptags", "replace('a', ' < <i')|striptags",
]
MARKUP_METHODS = METHODS + [
    "replace('b', '<')", "replace(',', 5)", "join(['<', 1, none, '&'|e])", "join('<>')", "center(20, '<')", "ljust(20, '.')", "zfill(20)",
    "split(',')[0] ~ ''", "striptags()", "unescape()", "escape('<')", "partition(',')", "rsplit(',', 1)", "__html__", "format('<')",
]
MARKUP_FORMATS = [
    "%s|%s' % ('<', '&'|e)", "%r' % '<'", "%(a)s' % {'a': '<'}", "%s' % [['<']]", "%s' % {'a': '<'}", "%d %i %05.1f' % (1, '2', '3')", "%d' % 'x'",
    "%d' % 2.5", "%x' % 255", "%c' % 65", "%*d' % (5, 3)", "%.3s|%6s' % ('<', '<')", "%d' % none", "%f' % none", "' % 1", "' % (1,)",
    "' % {}", "' % []", "' % undef", "%s' % undef", "%d' % undef", "%s' % none", "%(a)s' % {}", "%(a)s' % [1]", "%%' % ()", "%a' % '<'",
    "{} {}'.format('<', '<'|safe)", "{a[0]} {b!r}'.format(a=['<'], b='<')", "{:>4}'.format('<')", "{:>4}'.format('<'|safe)", "{!s}'.format('<'|safe)",
    "{:>{}}'.format(1, 3)", "{a}'.format_map({'a': '<'})", "{}'.format([1, '<'])", "{}'.format()", "{:d}'.format('<')", "%s'|format('<')", "%(a)s'|format(a='<')",
]
MARKUP_EXTRA = [
    "{{ x + '<' }}", "{{ '<' + x }}", "{{ x + x }}", "{{ x ~ '<' }}", "{{ '<' ~ x }}", "{{ (x ~ '<') + '<' }}", "{{ x + 1 }}", "{{ 1 + x }}", "{{ x + undef }}",
    "{{ undef + x }}", "{{ x + none }}", "{{ x + ['<'] }}", "{{ ['<'] + [x] }}", "{{ x * 2 + '<' }}", "{{ 2 * x + '<' }}", "{{ x * 2.5 }}", "{{ x - 1 }}", "{{ -x }}", "{{ '%s' % x + '<' }}",
    "{{ '%s%s' % (x, '<') }}", "{{ '{}'.format(x) + '<' }}", "{{ [x, '<']|join('<') }}", "{{ ['<', 1]|join(x) }}", "{{ ','.join([x, '<']) + '<' }}", "{{ 'a<b'.replace('a', x) + '<' }}",
    "{{ 'a<b'.partition('<'|safe) }}", "{{ 'ab'.partition('<'|safe) }}", "{{ 'a,b'.split(','|safe) }}", "{{ 'a'.ljust(3, '*'|safe) + '<' }}", "{{ x[1] + '<' }}", "{{ x[1:] + '<' }}", "{{ x[::-1] + '<' }}",
    "{{ x.foo }}", "{{ x.foo.bar }}", "{{ [x, (x,), {x: x}] }}", "{{ {x: 1}['<b> a,b </b>'] }}", "{{ x == '<b> a,b </b>' }}{{ x == x|string }}{{ x in ['<b> a,b </b>'] }}{{ 'b' in x }}{{ x < 'a' }}{{ x|length }}",
    "{{ x is string }}{{ x is escaped }}{{ x is sequence }}{{ x is iterable }}{{ x is mapping }}{{ x is lower }}{{ x is sameas x }}{{ x is sameas '<b> a,b </b>' }}{{ x is eq '<b> a,b </b>' }}",
    "{% for c in x %}{{ c is escaped }}{% endfor %}", "{% set a, b = '<>'|safe %}{{ a is escaped }}", "{{ x|list }}", "{{ x|e == x }}{{ '&'|e|e }}{{ '&'|forceescape|forceescape }}", "{{ none|e }}{{ undef|e }}{{ 5|e }}{{ ['<', \"'\"]|e }}{{ {'a': '\"'}|e }}",
    "{{ none|safe }}{{ undef|safe }}{{ 5|safe + '<' }}{{ ['<']|safe }}", "{% set y %}<{% endset %}{{ y is escaped }}", "{% set y|safe %}<{% endset %}{{ y is escaped }}{{ y + '<' }}", "{% filter e %}<a>{{ x }}{% endfilter %}",
    "{% macro m(a) %}{{ a + '<' }}{% endmacro %}{{ m(x) }}{{ m(x) is escaped }}", "{% macro m() %}{{ caller() + '<' }}{% endmacro %}{% call m() %}<{% endcall %}", "{{ (x, '<')|sum(start='') }}", "{{ d|xmlattr }}{{ {'a': x, 'b': '<'}|xmlattr }}",
    "{{ {'<'|e: '<'|e}|xmlattr }}", "{{ '<'|indent('>'|safe) + '<' }}", "{{ 'a<\n\nb<'|indent('>'|safe) }}", "{{ 'a<\n\nb<'|indent('>'|safe, true) }}", "{{ 'a<\n\nb<'|indent('>'|safe, true, true) + '<' }}", "{{ 'a<\n\nb<'|indent('>'|safe, false, true) + '<' }}",
    "{{ 'a<\n\nb<'|safe|indent('>', true, true) + '<' }}", "{{ 'a<b cdef'|truncate(6, true, '>'|safe, 0) + '<' }}", "{{ 'a<b c\n\nd'|wordwrap(2, wrapstring='>'|safe) + '<' }}", "{{ ['b'|safe, 'A<', 'c']|sort }}{{ ['b'|safe, 'b']|unique|list }}{{ ['b'|safe, 'c']|max }}",
    "{{ ['b'|safe, 'B']|groupby(0) }}", "{{ [{'a': x}]|map(attribute='a')|list }}{{ [{'a': x}]|selectattr('a', 'escaped')|list|length }}", "{{ x|upper + '<' }}{{ x|lower + '<' }}{{ x|capitalize + '<' }}{{ x|trim + '<' }}{{ x|string + '<' }}", "{{ x|title + '<' }}{{ x|replace('b', 'c') + '<' }}{{ x|striptags + '<' }}{{ x|urlencode + '<' }}",
    "{% set n = namespace(a=x) %}{{ n.a + '<' }}{{ n }}", "{% set j = joiner(x) %}{{ j() }}{{ j() + '<' }}", "{{ cycler(x).next() + '<' }}", "{{ raise_exception(x) }}", "{{ strftime_now('<%Y>'|safe) + '<' }}", "{{ x|tojson + '<' }}{{ [x]|tojson }}{{ {x: x}|tojson(indent='<'|safe) }}",
    "{{ '5'|safe|int + 1 }}{{ '5'|safe|float }}", "{{ 'ab' % undef }}", "{{ '%s' % undef }}", "{{ 'ab' % range(2) }}", "{{ ('ab'|safe) % range(2) }}", "{{ ('%s'|safe) % namespace(a='<') }}", "{{ ('%s'|safe) % d.keys() }}", "{{ d[('b'|safe)] }}{{ d['get'|safe](('b'|safe)) }}{{ d|attr('get'|safe) is callable }}",
    "{{ dict(a=x) }}{{ x|first }}{{ ''|safe|last is defined }}{{ x|count }}{{ x|wordcount }}{{ (x|reverse) + '<' }}", "{{ '&lt;i&gt; &amp;amp; <b>x</b>'|safe|striptags }}{{ ('a <!-- b> --> c'|safe).striptags() }}{{ ('&lt;&#39;&#34;&quot;&amp;lt;'|safe).unescape() }}",
]



def snippets():
    for left, operator, right in itertools.product(ATOMS, BINARY, ATOMS[:1] + ATOMS[3:7] + ATOMS[9:12]):
        if (left, operator) != ("s", "*"):
            yield f"{{{{ {left} {operator} {right} }}}}"
    for atom, name in itertools.product(["s", "l", "d", "w", "-2.5", "none", "undef", "''"], FILTERS):
        yield f"{{{{ ({atom})|{name} }}}}"
    for atom, name in itertools.product(ATOMS, TESTS):
        yield f"{{{{ {atom} is {name} }}}}"
    for text, method in itertools.product(TEXTS, METHODS):
        yield f"{{{{ {text}.{method} }}}}"
    for atom, part in itertools.product(["'äbcdef'", "[1, 2, 3]", "(1, 2, 3)", "{'x': 1}", "5", "undef"], SLICES):
        yield f"{{{{ {atom}{part} }}}}"
    yield from ("{{ " + text + " }}" for text in FORMATS)
    yield from EXTRA
    for name in MARKUP_FILTERS:
        yield f"{{{{ {MARKUP}|{name} }}}}"
    for method in MARKUP_METHODS:
        yield f"{{{{ [{MARKUP}.{method}] }}}}"
    for part in SLICES:
        yield f"{{{{ [{MARKUP}{part}] }}}}"
    yield from ("{{ ('<i>" + text.replace("'", "'|safe)", 1) + " }}" for text in MARKUP_FORMATS)
    yield from ("{% set x = " + MARKUP + " %}" + text for text in MARKUP_EXTRA)


def main():
    environment = make_environment()
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = []
    for text in dict.fromkeys(snippets()):
        kind, value = render(environment, text, VARIABLES)
        if " at 0x" not in value and not value.endswith("j)"):  # addresses vary; we have no complex numbers
            rows.append({"template": text, kind: value})
    write("snippets.json", {"now": NOW, "variables": VARIABLES, "snippets": rows})
    chosen = [(name, variables) for name, variables in cases() if name.endswith("+0")]
    renders = {}
    for path in sorted(FOLDER.glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        renders[path.name] = {name: dict([render(environment, template, variables)]) for name, variables in chosen}
    write("renders.json", {"now": NOW, "conversations": dict(chosen), "renders": renders})
    print(f"{len(rows)} snippets, {sum('error' in row for row in rows)} of them fail; {len(renders)} templates")


def write(name, data):
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace('},{"template"', '},\n{"template"')
    (FOLDER / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
