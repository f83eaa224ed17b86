"""Code objects of kernel sources, compiled by hipcc and cached under a hash of their inputs."""
import hashlib
import pathlib
import shutil
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
OPTIONS = ["-x", "hip", "-std=c++20", "-O3", "--genco", "--no-gpu-bundle-output"]


class CompileError(Exception):
    """The compiler's first error."""


def sources(root=ROOT):
    """Name of a source without its suffix -> its path below `root`."""
    return {file.stem: file.relative_to(root) for file in sorted((root / "kernels").glob("*/*.cc"))}


def _inputs(root):
    return sorted((root / "kernels").glob("*/*.h")) + sorted((root / "include").glob("gabbro/*.h"))


def _key(root, source, target):
    digest = hashlib.sha256(" ".join([*OPTIONS, target]).encode())
    for file in [*_inputs(root), root / source]:
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def compile_sources(names, target, cache, root=ROOT, log=print):
    """The code objects of these sources for a target in the folder `cache`, as NAME.TARGET.HASH.hsaco: name -> file.

    `root` has the sources below kernels/; it must be below the project's folder, where the compiler's root has it too.
    """
    cache.mkdir(parents=True, exist_ok=True)
    known = sources(root)
    wanted = {name: cache / f"{name}.{target}.{_key(root, known[name], target)[:16]}.hsaco" for name in names}
    missing = {name: file for name, file in wanted.items() if not file.is_file()}
    if not missing:
        return wanted
    log(f"compiling {len(missing)} sources for {target}")
    commands = []
    for name, file in missing.items():
        words = ["hipcc", *OPTIONS, f"--offload-arch={target}", f"-I{root}", "-o", f"{file}.new", str(root / known[name])]
        commands.append(f"{' '.join(words)} && mv {file}.new {file}")
    inside = [] if shutil.which("hipcc") else [str(ROOT / "tools" / "rocm_root")]
    done = subprocess.run([*inside, "xargs", "-d", "\\n", "-P", "2", "-I", "{}", "bash", "-c", "{}"], cwd=ROOT,
                          input="\n".join(commands) + "\n", text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for name, file in missing.items():
        if not file.is_file():
            lines = [line for line in done.stdout.splitlines() if "error" in line] or done.stdout.splitlines()
            raise CompileError(f"{known[name]} for {target}: {lines[0] if lines else f'status {done.returncode}'}")
    return wanted


def code_of(file):
    """The instructions and descriptors of a code object, without names that depend on the path of its source."""
    data = file.read_bytes()
    (at,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<3H", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, at + size * i) for i in range(count)]
    strings = sections[names][4]
    name_of = lambda section: data[strings + section[0]:data.index(b"\0", strings + section[0])]
    return [data[s[4]:s[4] + s[5]] for s in sections if name_of(s) in (b".text", b".rodata")]


def link_folder(folder, files, target):
    """Makes `folder` the runtime's EMULATED_GPU_CODE: links NAME.TARGET.hsaco to these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        link = folder / f"{name}.{target}.hsaco"
        link.unlink(missing_ok=True)
        link.symlink_to(file)
