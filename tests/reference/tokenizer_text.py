#!/usr/bin/env python3
"""Texts that are hard on tokenizers: many scripts, emoji, marks, code, white space, numbers, contractions, broken UTF-8.

`lines(count, seed)` yields bytes, the same for the same arguments on every machine. As a program it writes them in the
framing that compare_tokenizers.py reads: for each text its length as four bytes, little-endian, then its bytes.
"""
import argparse
import random
import struct
import sys

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.", "It's what they'd've said: we'll go, I'm sure, you're late, he's not.",
    "DON'T SHOUT, IT'S LATE; THEY'RE HERE, WE'LL SEE, I'VE, I'D, I'M", "don’t use ’typographic‘ “quotes”… or — dashes",
    "Die Straße führt über Brücken nach Gütersloh, größtenteils.", "L'été dernier, à l'hôtel, j'ai mangé des crêpes.",
    "El niño comió piñas en la mañana del año 1999.", "Příliš žluťoučký kůň úpěl ďábelské ódy.", "Zażółć gęślą jaźń.",
    "İstanbul'da ışık yandı; Ağrı'nın dağları.", "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.", "Իմ հայրենի Հայաստան", "საქართველო ლამაზია", "שלום עולם, מה שלומך היום?",
    "مرحبا بالعالم، كيف حالك؟ ٢٠٢٤", "یہ اردو ہے۔ کیا حال ہے؟", "नमस्ते दुनिया। क्षत्रिय ज्ञान १२३४", "আমি বাংলায় গান গাই।",
    "வணக்கம் உலகம்", "తెలుగు భాష", "ಕನ್ನಡ ನಾಡು", "മലയാളം ഭാഷ", "සිංහල අකුරු", "สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง ๑๒๓", "ສະບາຍດີ",
    "မင်္ဂလာပါ", "ភាសាខ្មែរ", "བོད་སྐད།", "ᠮᠣᠩᠭᠣᠯ", "አማርኛ ቋንቋ", "你好，世界！今天天气很好。", "我能吞下玻璃而不傷身體。", "日本語の文章です。カタカナとひらがな、漢字々〆。",
    "안녕하세요 세계! 한국어 문장입니다.", "ㄅㄆㄇㄈ 注音", "Tiếng Việt có nhiều dấu: ắ ặ ễ ộ ữ", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", "ꮳꮃꭹ", "𝕳𝖊𝖑𝖑𝖔 𝔪𝔞𝔱𝔥 𝟘𝟙𝟚", "ﬁne ﬂow oﬃce ǅ ǈ ǋ ᾼ", "ſtreet Kelvin K Å",
]
EMOJI = ["😀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇫🇷", "🧑🏿‍🚀", "❤️", "☕", "🚀🚀🚀", "1️⃣", "©️®™", "🤷‍♀️", "\U0001FAE0", "\u200d", "\ufe0f"]
MARKS = ["e\u0301", "n\u0303o", "a\u0308\u0323", "Z\u0351\u036b\u0343alg\u0321o\u0335", "\u0301abc", "क\u094d\u200dष", "x\u20dd", "ก็", "\u0e33", "a\u200bb", "\u00ad", "\ufeff"]
CODE = [
    "def f(x):\n    return x ** 2  # square\n", "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i] * b[i];\n\t}\n", "if(a&&b||!c){d=e?f:g;}",
    "SELECT * FROM t WHERE id='1' AND x<>2;--", "<div class=\"a\"><br/></div>", "std::vector<std::string>& v = *this->p;", "x = {'a': [1,2,3], \"b\": None}",
    "#include <stdio.h>\r\n\r\nint main(void)\r\n{\r\n}\r\n", "$PATH ${HOME} `ls -la` | grep -v '^#' > /dev/null 2>&1", "https://example.org/a?b=c&d=%20e#f",
    "camelCaseWord HTTPServer XMLHttpRequest2 snake_case_word kebab-case-word SCREAMING_CASE iPhone McDonald's", "λx.x → ∀y∈ℝ: y²≥0 ∑∫√∞≠≈", "C:\\dir\\file.txt\\n", "{{#if x}}{{/if}} <!-- -->",
    "```python\nprint('hi')\n```", "a\\b /* c */ // d", "0xDEADBEEF 1e-10 3.14f 0b1010 1_000_000", "user@example.com, +49 (0)30 123-456",
]
SPACES = [" ", "  ", "   ", "    ", "        ", "\t", "\t\t", " \t ", "\n", "\n\n", "\n\n\n", " \n", "\n ", " \n \n ", "\r\n", "\r", "\r\r\n", "\v", "\f", "\x85", "\u00a0", "\u00a0\u00a0", "\u1680",
          "\u180e", "\u2003", "\u2009 ", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u3000\u3000", " \u00a0 ", "\u200b", " " * 40, "\n" * 33, "\t" * 20]
NUMBERS = ["0", "7", "12", "123", "1234", "12345", "123456", "1234567", "12345678901", "3.14159", "1,234,567.89", "٣٤٥٦", "१२३४५", "½", "²³", "Ⅷ", "①②", "〇", "၁၂၃၄", "１２３４", "𝟙𝟚𝟛𝟜", "1st", "2nd",
           "12ab", "ab12", "1234_", "12\u03013", "1234é", "1a2b3c", "007", "1/2", "100%", "$99.99", "-273.15", "2024-11-21T10:30:00Z", "߁߂߃߄", "1234٣٤"]
CONTRACTIONS = ["'s", "'S", "'t", "'T", "'re", "'Re", "'RE", "'rE", "'ve", "'VE", "'m", "'M", "'ll", "'LL", "'lL", "'d", "'D", "'x", "''s", "’s", "'\u017f", "'sx", "s'", "'", "''", "\"'s", "I'm", "IT'S", "l'", "d'l"]
PUNCTUATION = ["!", "?!", "...", "…", "、", "。", "،", "؟", "।", "۔", "！？", "(a)", "[b]", "{c}", "<d>", "\"q\"", "“q”", "«q»", "--", "—", "_", "__init__", "#tag", "@me", "*", "**b**", "~", "^", "`", "|", "||", "\\", "/", "//", "=", "==", "+", "€", "£5", "$", "°", "§", "¶", "·",
               "•", "→", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|>user\nHi<|im_end|>\n", " <|eot_id|> ", "<unk>", "<0x41>", "▁", "▁▁a", "Ġ", "[INST]", "<|end|>  x", "<fim_prefix>", "<|system|>\n y", "<extra_id_0>"]
BROKEN = [b"\xff", b"\xfe\xff", b"\x80", b"\xbf\xbf", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2(\xa1", b"\xf0\x9f\x98", b"\xf0\x9f", b"\xf0(\x8c\xbc", b"\xc0\xaf", b"\xc1\xbf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf",
          b"\xed\xa0\x80", b"\xed\xa0\xbd\xed\xb8\x80", b"\xed\xbf\xbf", b"\xf8\x88\x80\x80\x80", b"\xfc", b"a\xffb", b"\xe6\x97\xe6\x97\xa5", b"\x00", b"\x01\x02\x7f"]
# Ends of blocks that Unicode 14 and later versions agree on; a few code points from each.
BLOCKS = [(0x20, 0x7F), (0xA0, 0x250), (0x2B0, 0x37E), (0x384, 0x530), (0x5D0, 0x5EB), (0x620, 0x6FF), (0x904, 0x97F), (0xE01, 0xE3A), (0x10A0, 0x10C6), (0x1100, 0x1200), (0x1E00, 0x1F00),
          (0x2010, 0x2060), (0x2070, 0x2072), (0x20A0, 0x20C0), (0x2100, 0x218A), (0x2190, 0x2400), (0x2460, 0x2600), (0x2600, 0x2700), (0x3000, 0x3040), (0x3041, 0x3097), (0x30A0, 0x3100), (0x3400, 0x3500), (0x4E00, 0x9FA6),
          (0xAC00, 0xD7A4), (0xF900, 0xFA6E), (0xFF01, 0xFFBF), (0x10400, 0x10450), (0x1D400, 0x1D455), (0x1F300, 0x1F600), (0x20000, 0x20100), (0xE000, 0xE100)]


def lines(count, seed=1, broken=True):
    """Yields `count` texts as bytes; without `broken` all of them are well-formed UTF-8."""
    rng = random.Random(seed)
    kinds = [SENTENCES, SENTENCES, CODE, EMOJI, MARKS, SPACES, SPACES, NUMBERS, CONTRACTIONS, PUNCTUATION]

    def word():
        low, high = rng.choice(BLOCKS)
        return "".join(chr(rng.randrange(low, high)) for _ in range(rng.randrange(1, 6)))

    def piece():
        choice = rng.random()
        if choice < 0.08:
            return word().encode()
        if choice < 0.13 and broken:
            return rng.choice(BROKEN)
        text = rng.choice(rng.choice(kinds))
        if choice > 0.93:
            text = text.upper() if rng.random() < 0.5 else text.title()
        elif choice > 0.7:
            words = text.split(" ")
            start = rng.randrange(len(words))
            text = " ".join(words[start:start + rng.randrange(1, 5)])
        return text.encode()

    for parts in (SENTENCES, EMOJI, MARKS, CODE, SPACES, NUMBERS, CONTRACTIONS, PUNCTUATION):
        for text in parts:
            if count == 0:
                return
            count -= 1
            yield text.encode()
    for index in range(count):
        joint = b" " if index % 3 else b""
        yield joint.join(piece() for _ in range(rng.randrange(1, 9)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--valid", action="store_true", help="no broken UTF-8")
    parser.add_argument("--out", default="-")
    options = parser.parse_args()
    out = sys.stdout.buffer if options.out == "-" else open(options.out, "wb")
    for text in lines(options.count, options.seed, not options.valid):
        out.write(struct.pack("<I", len(text)) + text)


if __name__ == "__main__":
    main()
