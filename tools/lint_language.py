#!/usr/bin/env python3
"""Checks the language of code and documents: standard terms, American spelling, and sentences.

    lint_language.py [--root ROOT] [--count] [PATH]...

Prints one line per finding, `file:line: "words": use ...`, and exits 1 when there is one. docs/words.md has the terms.
A comment or message is a sentence with its subject first, or a noun phrase: SENTENCES and BEGINNINGS list what it is not.
Checks the whole tree, or the named files and folders. Fixtures, which other programs wrote, are not checked.
"""
import argparse
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tree_files import tree_files  # noqa: E402

CODE = {".h", ".cc", ".cu", ".hip", ".in"}
HASH_COMMENTS = {".py", ".sh", ".cmake", ".txt", ""}
PAGES = {".md"}
FIXTURES = re.compile(r"^models/[^/]+/[^/]+/|^tests/(data/|fuzz/corpus/|.*/fixtures/)|^LICENSE$|/requirements\.txt$|array_api_skips\.txt$|\.json$")
# The linter, its test, and the glossary name the words that they refuse.
NAMES_THE_WORDS = {"tools/lint_language.py", "tests/lint/lint_language_test.py"}
JOURNAL = re.compile(r"^docs/journal/")

# A phrase of comments, messages and documents, and the standard term. Ordinary uses are left out of each pattern.
PHRASES = [
    (r"(?<!re)turned(?! (?:on|off|into|out|up|away))|\bturning (?:angle|rows|columns|weights|tiles)", "transposed; of RoPE: rotated"),
    (r"\blies?\b(?! (?:in|on) wait)|\blying\b", "is stored, is in, layout, stride"),
    (r"(?<!endian::)(?<!['\x22])\blittle\b(?![- _]endian| memory)", "small, inline, short"),
    (r"\bways\b|\ball the way\b|\bchoose_way\b", "algorithms, candidates"),
    (r"\bin shares\b|\bshares of (?:the )?(?:keys|rows|columns|tokens)\b|\battention_shares\b", "splits (split-K, flash decoding)"),
    (r"\bhalves\b(?! (?:the|a|its|of the (?:file|text|chunk)))", "f16 values, fp16/bf16"),
    (r"\bquads?\b|\bin_quads\b|\bpacks of 16\b", "16-byte vectors"),
    (r"\blibrar(?:y|ies) of products\b|\blibrary that multiplies\b", "BLAS library, GEMM library"),
    (r"\bgiv(?:es?|en|ing) back\b|\bgive_back\b", "release, free, return"),
    (r"\bheed(?:s|ed|ing)?\b", "check, follow, obey the cancel flag"),
    (r"\bsoften(?:s|ed|ing)?\b|\bweigh(?:s|ed|ing)?\b", "softmax, multiply by the probabilities"),
    (r"\banew\b", "again"),
    (r"\bbeside\b", "next to, with"),
    (r"\bof (?:its|their|his) own\b", "separate, own"),
    (r"\bnobody\b|\bwhoever\b|\bwhatever (?:it|they|there) (?:is|are)\b", "none, no one, the caller"),
    (r"\bthe one as the other\b|\bone and the same\b", "the same"),
    (r"\bmany_words\b|\bManyWords\b", "i16 codes"),
    (r"\bseen_row\b|\blargest_seen\b|\bthe window sees\b|\bwindows? see\b", "clipped window row"),
    (r"\bis_nothing\b", "is_empty"),
    (r"\bfree_for_good\b|\ballocate_apart\b", "free_unpooled, allocate_unpooled"),
    (r"\bevery which\b|\bso many\b|\bas many as there are\b", "n, the number of"),
    (r"\bis no (?:index|type|shape|number|shape|format|tensor|model|file)\b", "is not a ..."),
    (r"\bare no (?:blocks|indices|numbers|shapes)\b", "are not ..."),
    (r"\bthere is no way to\b", "cannot, no encoder for"),
    (r"\babsurd\b", "exceeds, out of range"),
    (r"\bhas not got\b|\bhave not got\b", "does not have"),
    (r"\bby and by\b|\bhereof\b|\bthereof\b|\bwherein\b|\bwhereof\b", "plain words"),
    (r"\bmend(?:s|ed|ing)?\b", "fix"),
    (r"\bforth\b(?!coming)|\bhence\b(?!forth)", "plain words"),
]

# British endings, by the stem that they follow.
BRITISH = re.compile(
    r"(?:normal|quant|optim|initial|serial|recogn|minim|maxim|synchron|vector|token|organ|summar|util|material|"
    r"random|general|parallel|linear|special|standard|real|local|final|memor|emphas|categor|custom|prior|"
    r"stabil|symbol|visual|author|apolog|penal|equal)is(?:e(?:d|r|rs|s)?|ing|ation|ations)(?-i:(?![a-z]))|"
    r"(?:colour|behaviour|neighbour|favour|honour|labour)|(?:centre|centred|centring|metre|metres|fibre)(?-i:(?![a-z]))|"
    r"(?:cancelled|cancelling|canceller|labelled|labelling|modelled|modelling|travelled|signalled)(?-i:(?![a-z]))|"
    r"(?:towards|afterwards|whilst|learnt|spelt|misspelt|grey|catalogue|artefact|judgement|licence|analyse[ds]?)(?-i:(?![a-z]))",
    re.IGNORECASE)
# Spellings that other interfaces fix: a field of a stable JSON document, a library's name.
FIXED_SPELLINGS = re.compile(r'"cancelled"|"quantisation"|`quantisation`')

RELATIVE = re.compile(r"^(?:What|Of|Where|Whoever|Who|Whose|Which)\b(?!.*\?\s*$)")

# Phrases of comments, messages and documents that hide the subject, and what to do.
SENTENCES = [
    (r"\bwhat (?:it|they) (?:is|are|has|have|does|do)\b", "name the thing"),
    (r"\bof which\b|\bthose of\b", "repeat the noun"),
    (r"\bwhere there (?:is one|(?:is|are) none)\b", "if, without, or `null: none`"),
    (r"(?<!there )\b(?:is|are|was|were) no (?!longer|more\b|less|larger|smaller|later|earlier|better|worse)\w+", "is not a ..."),
    (r"\bas (?:it is|they are)\b(?! (?:used|called|given|read|written|done|made|in|on|stored|loaded))", "unchanged"),
    (r"\bone after (?:the other|another)\b", "in sequence, consecutive"),
]
# Beginnings of a comment, or of a sentence in one.
BEGINNINGS = re.compile(r"(?:By|Of|And of|The same|Those|In which|Where|What|Who|Whose|Which|Whoever)\b(?!.*\?\s*$)")
_SENTENCES = [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in SENTENCES]
_CAMEL_CASE = re.compile(r"\b\w*[a-z0-9][A-Z]\w*")

_PATTERNS = [(re.compile(pattern, re.IGNORECASE), term) for pattern, term in PHRASES]
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def comment_of(line, suffix):
    """The comment that a line of code holds, or None."""
    if suffix in CODE:
        masked = _STRING.sub(lambda m: '"' + "_" * (len(m[0]) - 2) + '"', line)
        at = masked.find("//")
        return line[at:].lstrip("/").strip() if at >= 0 else None
    at = line.find("#")
    if at < 0 or (at > 0 and line[at - 1] not in " \t") or line.startswith("#!"):
        return None
    return line[at:].lstrip("#").strip()


def opens_with_relative_clause(lines, number, suffix):
    """Whether the comment that begins in this line begins with a relative clause."""
    comment = comment_of(lines[number], suffix)
    if comment is None or not RELATIVE.match(comment):
        return False
    stands_alone = lines[number].strip().startswith(("//", "#"))
    if stands_alone and number > 0:
        before = lines[number - 1].strip()
        if before.startswith(("//", "#")) and len(before.lstrip("/#").strip()) > 0 and not before.startswith(("#include", "#pragma", "#!")):
            return False  # the comment goes on
    return True


def continues(lines, number):
    """Whether the comment in a line goes on from the line before."""
    line, before = lines[number].strip(), lines[number - 1].strip() if number > 0 else ""
    return (line.startswith(("//", "#")) and before.startswith(("//", "#")) and len(before.lstrip("/# ")) > 0
            and not before.startswith(("#include", "#pragma", "#!")))


def lint_sentences(path, lines, report):
    suffix = pathlib.PurePosixPath(path).suffix
    for number, line in enumerate(lines):
        for pattern, advice in _SENTENCES:
            match = pattern.search(line)
            if match:
                report(path, number + 1, f'"{match[0]}": {advice}')
        comment = comment_of(line, suffix) if suffix not in PAGES else None
        if comment is None:
            continue
        for i, sentence in enumerate(re.split(r"(?<=\.)\s+", comment)):
            match = BEGINNINGS.match(sentence)
            if match and (i > 0 or not (continues(lines, number) or RELATIVE.match(sentence))):
                report(path, number + 1, f'"{match[0]} ...": begin with the subject')


def lint_file(path, text, report):
    suffix = pathlib.PurePosixPath(path).suffix
    lines = text.split("\n")
    for number, line in enumerate(lines):
        for match in BRITISH.finditer(line):
            if not FIXED_SPELLINGS.search(line[max(0, match.start() - 1):match.end() + 1]):
                report(path, number + 1, f'"{match[0]}": American spelling')
        for pattern, term in _PATTERNS:
            match = pattern.search(line)
            if match:
                report(path, number + 1, f'"{match[0]}": {term}')
        for name in set(_CAMEL_CASE.findall(line)) if suffix in CODE or suffix == ".py" else ():
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
            for pattern, term in _PATTERNS:
                if pattern.search(words) and not pattern.search(name):
                    report(path, number + 1, f'"{name}": {term}')
        if suffix not in PAGES and opens_with_relative_clause(lines, number, suffix):
            report(path, number + 1, f'"{comment_of(line, suffix).split()[0]} ...": a comment begins with a noun or a verb')


def is_text(file, path):
    return (file.suffix in CODE | HASH_COMMENTS | PAGES) and not FIXTURES.search(path) and path not in NAMES_THE_WORDS


def files_of(root, names):
    for file, path in tree_files(root):
        if is_text(file, path) and (names is None or any(path == name or path.startswith(name + "/") for name in names)):
            yield file, path


def lint(root, names=None):
    """All findings as (file, line, what). `names` are files and folders below `root`; None: the whole tree."""
    findings = []
    for file, path in files_of(root, names):
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # tools/lint_layers.py reports it
        lint_file(path, text, lambda *finding: findings.append(finding))
        if not JOURNAL.match(path):
            lint_sentences(path, text.split("\n"), lambda *finding: findings.append(finding))
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--count", action="store_true", help="print the number of findings per folder")
    parser.add_argument("paths", nargs="*", help="files and folders below the root")
    args = parser.parse_args()
    if not args.root.is_dir():
        sys.exit(f"lint_language: error: {args.root} is not a folder")
    names = [name.rstrip("/") for name in args.paths] or None
    findings = lint(args.root, names)
    if args.count:
        counts = {}
        for path, _, _ in findings:
            folder = "/".join(path.split("/")[:2])
            counts[folder] = counts.get(folder, 0) + 1
        for folder, count in sorted(counts.items(), key=lambda item: -item[1]):
            print(f"{count:6} {folder}")
    else:
        for path, number, what in findings:
            print(f"{path}:{number}: {what}")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
