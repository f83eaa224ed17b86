"""Reads a GGUF file into lists that a test can change, and writes it again. Standard library alone."""
import struct

ALIGNMENT = 32
U32, F32, BOOL, STRING, ARRAY, U64 = 4, 6, 7, 8, 9, 10
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", U32: "I", 5: "i", F32: "f", BOOL: "?", U64: "Q", 11: "q", 12: "d"}


class Tensor:
    def __init__(self, name, shape, kind, data):
        self.name, self.shape, self.kind, self.data = name, shape, kind, data  # shape as in the file: fastest first


class Gguf:
    """fields: {key: (type, value)}, an array's value being (element type, list)."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.at = 4
        self.version = self.take("I")
        tensor_count, field_count = self.take("Q"), self.take("Q")
        self.fields = {}
        for _ in range(field_count):
            key = self.take_string()
            kind = self.take("I")
            self.fields[key] = (kind, self.take_value(kind))
        heads = []
        for _ in range(tensor_count):
            name = self.take_string()
            shape = [self.take("Q") for _ in range(self.take("I"))]
            heads.append((name, shape, self.take("I"), self.take("Q")))
        start = -(-self.at // ALIGNMENT) * ALIGNMENT
        ends = sorted([offset for *_, offset in heads] + [len(self.bytes) - start])
        self.tensors = []
        for name, shape, kind, offset in heads:
            end = ends[ends.index(offset) + 1]
            self.tensors.append(Tensor(name, shape, kind, self.bytes[start + offset:start + end]))

    def take(self, form):
        value, = struct.unpack_from("<" + form, self.bytes, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def take_string(self):
        length = self.take("Q")
        self.at += length
        return self.bytes[self.at - length:self.at]

    def take_value(self, kind):
        if kind == STRING:
            return self.take_string()
        if kind == ARRAY:
            element = self.take("I")
            return element, [self.take_value(element) for _ in range(self.take("Q"))]
        return self.take(FORMATS[kind])

    def tensor(self, name):
        return next(t for t in self.tensors if t.name == name.encode())

    def write(self, path):
        out = bytearray(b"GGUF" + struct.pack("<IQQ", self.version, len(self.tensors), len(self.fields)))

        def string(text):
            return struct.pack("<Q", len(text)) + text

        def value(kind, v):
            if kind == STRING:
                return string(v)
            if kind == ARRAY:
                element, items = v
                return struct.pack("<IQ", element, len(items)) + b"".join(value(element, i) for i in items)
            return struct.pack("<" + FORMATS[kind], v)

        for key, (kind, v) in self.fields.items():
            out += string(key) + struct.pack("<I", kind) + value(kind, v)
        offset = 0
        for t in self.tensors:
            out += string(t.name) + struct.pack("<I", len(t.shape)) + struct.pack(f"<{len(t.shape)}Q", *t.shape)
            out += struct.pack("<IQ", t.kind, offset)
            offset += -(-len(t.data) // ALIGNMENT) * ALIGNMENT
        for t in self.tensors:
            out += b"\0" * (-len(out) % ALIGNMENT) + t.data
        with open(path, "wb") as file:
            file.write(out + b"\0" * (-len(out) % ALIGNMENT))
