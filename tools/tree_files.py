"""The files of a source tree, for the linters and for tests that change a copy of it."""
import shutil
import subprocess

SKIPPED_FOLDERS = {"build", ".git", "__pycache__", ".cache"}


def tree_files(root):
    """Yields (file, path from `root`) of each regular file, sorted; no symbolic links.

    In a git work tree: the files that git tracks or would add, so that outputs of other tools are left out. Elsewhere (an
    unpacked archive): all files outside of SKIPPED_FOLDERS.
    """
    listed = None
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-C", root, "-c", f"safe.directory={root}", "ls-files", "-z", "--cached", "--others",
                                 "--exclude-standard"], stdout=subprocess.PIPE, check=True, text=True).stdout
    files = (root / name for name in listed.split("\0") if name) if listed is not None else root.rglob("*")
    for file in sorted(set(files)):
        path = file.relative_to(root)
        if file.is_file() and not file.is_symlink() and not SKIPPED_FOLDERS & set(path.parts):
            yield file, path.as_posix()


def copy_tree(root, target):
    """Copies the files of `tree_files` to the folder `target`, which is made."""
    for file, path in tree_files(root):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target / path)
