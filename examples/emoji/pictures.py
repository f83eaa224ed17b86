"""Draws the emoji of Noto Color Emoji with their English names into one file, from which train.py learns.

    python examples/emoji/pictures.py [--font FILE] [--names FOLDER] -o emoji.npz

FONT and NAMES are where Debian's packages fonts-noto-color-emoji and unicode-cldr-core put them. Needs fontTools and
Pillow. Variants of skin tone are left out.
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import pathlib
import xml.etree.ElementTree

import numpy as np
import tokenizer
from fontTools.ttLib import TTFont
from PIL import Image

FONT = "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf"
NAMES = "/usr/share/unicode/cldr/common"
SIDE, DRAWN = 128, 120  # of a picture, and of the emoji in it
SKIN_TONES = {chr(code) for code in range(0x1F3FB, 0x1F400)}
VARIATION = "\ufe0f"
MOST_KEYWORDS = 4


def names_of_emoji(folder: pathlib.Path) -> dict[str, tuple[str, list[str]]]:
    """The name and keywords of each emoji, which is a string of characters without variation selectors."""
    names: dict[str, str] = {}
    keywords: dict[str, list[str]] = {}
    for file in ("annotations/en.xml", "annotationsDerived/en.xml"):
        for entry in xml.etree.ElementTree.parse(folder / file).iter("annotation"):
            characters = entry.attrib["cp"].replace(VARIATION, "")
            text = (entry.text or "").lower().replace("\u2019", "'")
            if entry.attrib.get("type") == "tts":
                names[characters] = text
            else:
                keywords[characters] = [word.strip() for word in text.split("|")]
    return {
        emoji: (name, [word for word in keywords.get(emoji, []) if word != name][:MOST_KEYWORDS])
        for emoji, name in names.items()
        if not SKIN_TONES & set(emoji)
    }


class Glyphs:
    """The bitmaps of a font, by characters."""

    def __init__(self, path: str) -> None:
        font = TTFont(path)
        self.by_character = font.getBestCmap()
        self.bitmaps = font["CBDT"].strikeData[0]
        self.ligatures: dict[str, list[tuple[list[str], str]]] = collections.defaultdict(list)
        for lookup in font["GSUB"].table.LookupList.Lookup:
            for table in lookup.SubTable:
                table = getattr(table, "ExtSubTable", table)
                for first, found in getattr(table, "ligatures", {}).items():
                    self.ligatures[first] += [(ligature.Component, ligature.LigGlyph) for ligature in found]

    def draw(self, emoji: str) -> Image.Image | None:
        names = [self.by_character.get(ord(character)) for character in emoji]
        if None in names:
            return None
        if len(names) > 1:
            fitting = [glyph for rest, glyph in self.ligatures[names[0]] if rest == names[1:]]
            if not fitting:
                return None
            names = fitting[:1]
        bitmap = self.bitmaps.get(names[0])
        if bitmap is None or not getattr(bitmap, "imageData", None):
            return None
        return Image.open(io.BytesIO(bitmap.imageData)).convert("RGBA")


def place(image: Image.Image) -> np.ndarray:
    """[SIDE, SIDE, 4]: the emoji in the middle, with color times opacity, and opacity."""
    values = np.asarray(image, np.float32) / 255
    values[..., :3] *= values[..., 3:]
    scale = DRAWN / max(image.size)
    size = (round(image.width * scale), round(image.height * scale))
    planes = [np.asarray(Image.fromarray(values[..., i]).resize(size, Image.Resampling.LANCZOS)) for i in range(4)]
    picture = np.zeros((SIDE, SIDE, 4), np.float32)
    left, top = (SIDE - size[0]) // 2, (SIDE - size[1]) // 2
    picture[top : top + size[1], left : left + size[0]] = np.stack(planes, -1)
    return np.round(picture.clip(0, 1) * 255).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--font", default=FONT)
    parser.add_argument("--names", type=pathlib.Path, default=pathlib.Path(NAMES))
    parser.add_argument("-o", "--out", required=True)
    options = parser.parse_args()
    glyphs, pictures, texts, seen = Glyphs(options.font), [], [], set()
    for emoji, (name, keywords) in names_of_emoji(options.names).items():
        image = glyphs.draw(emoji)
        if image is None or name in seen:
            continue
        picture = place(image)
        if not picture.any():
            continue
        seen.add(name)
        pictures.append(picture)
        texts.append({"emoji": emoji, "name": name, "keywords": keywords})
    vocabulary, merges = tokenizer.train(tokenizer.captions_for_vocabulary(texts))
    data = {"texts": texts, "vocabulary": vocabulary, "merges": merges}
    np.savez_compressed(options.out, pictures=np.stack(pictures), data=json.dumps(data, ensure_ascii=False))
    print(f"{len(pictures)} pictures, {len(vocabulary)} tokens")


if __name__ == "__main__":
    main()
