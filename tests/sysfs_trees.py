"""The recorded machines of tests/data/sysfs, one file NAME.tree each: for every file of the machine a line "==> PATH", then
its text."""
import atexit
import pathlib
import shutil
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent / "data" / "sysfs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.tree"))


def unpack(name, folder):
    """Writes the files of the machine to the folder, as GABBRO_SYSFS_ROOT takes it."""
    for part in (FOLDER / f"{name}.tree").read_text().split("==> ")[1:]:
        path, text = part.split("\n", 1)
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def unpacked():
    """A folder with the folders of all machines, which is removed when the process ends."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gabbro_sysfs_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in NAMES:
        unpack(name, folder / name)
    return folder
