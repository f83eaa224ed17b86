"""Files that commands write where the file system sets limits: links, long names, full and read-only disks, and a limit on
the size of a file. Each ends with one line and nothing half written."""
import os
import resource
import shutil
import subprocess

import support
import tiny_folder
from support import PROGRAM, TestCase


def limited():
    """As `ulimit -f`: files of one kilobyte at most."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


class Outputs(TestCase):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        tiny_folder.write_llama(self.model)
        self.text = self.file("t.txt", "abc " * 60)
        self.target = self.folder / "target.gguf"

    def commands(self, folder):
        """Commands that write a file into a folder."""
        return (["convert", self.model, "--type", "f32", "-o", folder / "x.gguf"],
                ["logits", self.model, "--tokens", "3,4,5,6,7,8,9,3,4,5", "--out", folder / "x.npy"],
                ["imatrix", self.model, "--text", self.text, "--ctx", "16", "-o", folder / "i.gguf"])

    def test_links_keep_their_names(self):
        link = self.folder / "link.gguf"
        link.symlink_to("target.gguf")
        self.succeeds("convert", self.model, "-o", link)  # the target is not there yet
        first = self.target.read_bytes()
        self.fails(2, "convert", self.model, "-o", link, says="is there already")
        self.succeeds("convert", self.model, "--type", "f32", "-o", link, "--force")
        self.assertTrue(link.is_symlink())
        self.assertNotEqual(self.target.read_bytes(), first)
        npy = self.folder / "x.npy"
        npy.symlink_to("y.npy")
        self.succeeds("logits", self.model, "--tokens", "3", "--out", npy)
        self.assertTrue(npy.is_symlink() and (self.folder / "y.npy").is_file())
        loop = self.folder / "loop.gguf"
        loop.symlink_to("loop.gguf")
        self.fails(1, "convert", self.model, "-o", loop, says="Too many levels of symbolic links")

    def test_a_limit_on_the_size_of_files(self):
        for command in self.commands(self.folder):
            self.fails(1, *command, says=[str(command[-1]), "File too large"], preexec_fn=limited)
        with open(self.folder / "out", "wb") as out:
            done = subprocess.run([PROGRAM, "inspect", support.TINY_F16, "--json"], stdout=out, stderr=subprocess.PIPE,
                                  preexec_fn=limited)
        self.assertEqual((done.returncode, done.stderr), (1, b"gabbro: error: cannot write to standard output: File too large\n"))
        self.assertEqual([path for path in self.folder.glob("[xi].*") if ".partial" not in path.name], [])

    def test_full_and_read_only_disks(self):
        full, sealed = self.folder / "full", self.folder / "sealed"
        full.mkdir()
        sealed.mkdir()
        mounts = (f"mount -t tmpfs -o size=16k none {full} && mount -t tmpfs -o ro none {sealed} || exit 3; "
                  f'head -c 99999 /dev/zero >{full}/fill 2>/dev/null; "$@"; code=$?; ls -A "$0"; exit $code')
        start = ["unshare", "--mount", "--map-root-user", "sh", "-c", mounts]
        if shutil.which("unshare") is None or subprocess.run([*start, full, "true"], capture_output=True).returncode != 0:
            self.skipTest("this machine allows no name spaces of mounts")
        for folder, reasons in ((full, ("No space left", "bytes free", "has ")), (sealed, ("Read-only file system",))):
            for command in self.commands(folder):
                done = subprocess.run([*start, folder, PROGRAM, *command], capture_output=True, text=True)
                self.assertEqual(done.returncode, 1, done)
                self.assertEqual(done.stdout, "fill\n" if folder == full else "", done)
                self.assertIn(f"gabbro: error: {command[-1]}: ", done.stderr)
                self.assertTrue(any(reason in done.stderr for reason in reasons), done.stderr)

    def test_names_that_are_too_long(self):
        for length in (255, 300):
            self.fails(1, "convert", self.model, "-o", self.folder / ("a" * length), says="File name too long")
        self.assertEqual(sorted(os.listdir(self.folder)), ["model", "t.txt"])


if __name__ == "__main__":
    support.main()
