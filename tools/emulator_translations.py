"""What tinygrad's emulator has translated, found at once and kept for the next program.

Is in the corrected copy of the checkout (tools/emulator_corrections.py) as test/mockgpu/amd/translations.py. A form is
an instruction whose numbers of registers are left open. The emulator makes a C function of each, which takes it a tenth
of a second even where the compiler's part is cached, and compares every instruction with all of them. Here a form is
looked up by its fixed bits, and its machine code is a file in a folder next to this one, for all programs that run on
emulated cards, in sequence or together.
"""
import hashlib
import os
import pathlib
import pickle
import types

HERE = pathlib.Path(__file__).parent
CHECKOUT = HERE.parent.parent.parent
SOURCES = ("test/mockgpu/amd", "tinygrad")


def _folder():
    """Of the machine code that this checkout, this compiler and this processor make."""
    facts = [os.environ.get("CC")]
    for name in SOURCES:
        for parent, _, files in os.walk(CHECKOUT / name, followlinks=True):
            times = {file: os.stat(os.path.join(parent, file)) for file in files if file.endswith(".py")}
            facts += [f"{parent}/{file} {of.st_size} {of.st_mtime_ns}" for file, of in times.items()]
    with open("/proc/cpuinfo") as info:
        facts.append(next((line for line in info if line.startswith("flags")), ""))
    folder = HERE / "translated" / hashlib.sha256("\n".join(sorted(map(str, facts))).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Forms:
    """kind, an instruction's class and size, and the mask of its fixed bits -> these bits -> (program, runtime):
    callers use program.arg.globals and runtime.addr; or the input of load()."""

    def __init__(self, load):
        self.load = load
        self.folder = _folder()
        self.known = {}
        self.masks = {}
        for file in self.folder.glob("*.form"):
            self._enter(*pickle.loads(file.read_bytes()))

    def _enter(self, kind, mask, base, entry):
        self.known.setdefault((kind, mask), {})[base] = entry
        masks = self.masks.setdefault(kind, [])
        if mask not in masks:
            masks.append(mask)
        return entry

    def _loaded(self, kind, mask, base, kept):
        numbers, elf = kept
        program = types.SimpleNamespace(arg=types.SimpleNamespace(globals=numbers))
        return self._enter(kind, mask, base, (program, self.load(pickle.loads(elf))))

    def find(self, kind, bits):
        for mask in self.masks.get(kind, ()):
            entry = self.known[kind, mask].get(bits & mask)
            if entry is not None:
                return self._loaded(kind, mask, bits & mask, entry) if isinstance(entry[1], bytes) else entry
        return None

    def make(self, kind, mask, base, make_program):
        """The form's entry; another program may have made it meanwhile."""
        name = hashlib.sha256(repr((kind, mask, base)).encode()).hexdigest()[:32]
        file = self.folder / f"{name}.form"
        if file.is_file():
            return self._loaded(kind, mask, base, pickle.loads(file.read_bytes())[3])
        program = make_program()
        kept = (tuple(program.arg.globals), pickle.dumps(program.to_elf()))
        partial = self.folder / f"{name}.{os.getpid()}"
        partial.write_bytes(pickle.dumps((kind, mask, base, kept)))
        partial.rename(file)
        return self._loaded(kind, mask, base, kept)
