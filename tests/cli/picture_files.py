"""PNG files as bytes: reading chunks and pixels, and writing pictures."""
import struct
import zlib


def chunks(png):
    """The chunks of a PNG file by their types, with checked checksums."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    found, at = [], 8
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        data = png[at + 8:at + 8 + size]
        assert struct.unpack_from(">I", png, at + 8 + size)[0] == zlib.crc32(kind + data)
        found.append((kind.decode(), data))
        at += 12 + size
    return found


def text_of(png):
    return {data.split(b"\0")[0].decode(): data for kind, data in chunks(png) if kind in ("tEXt", "iTXt")}


def pixels(png):
    """Width, height and the bytes of a PNG file with 8 bits a channel and no alpha, without its filters."""
    width, height, depth, color = struct.unpack(">IIBB", png[16:26])
    assert (depth, color) == (8, 2)
    data = zlib.decompress(b"".join(data for kind, data in chunks(png) if kind == "IDAT"))
    step = 3 * width
    above, rows = bytearray(step), bytearray()
    for y in range(height):
        kind, row = data[y * (step + 1)], bytearray(data[y * (step + 1) + 1:(y + 1) * (step + 1)])
        for i in range(step):
            left, corner = (row[i - 3], above[i - 3]) if i >= 3 else (0, 0)
            near = min((left, above[i], corner), key=lambda value: abs(left + above[i] - corner - value))
            row[i] = (row[i] + (0, left, above[i], (left + above[i]) // 2, near)[kind]) & 255
        rows += row
        above = row
    return width, height, bytes(rows)


def png_of(width, height, color, channels=3):
    """A PNG of the pixels color(x, y): tuples of 1, 3 or 4 numbers."""
    rows = b"".join(b"\0" + b"".join(bytes(color(x, y)) for x in range(width)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts)
