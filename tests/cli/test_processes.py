"""`gabbro run` in two processes of mpirun: the tokens of one process, and a rank that is lost ends both within 5 s."""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from support import BUILD, PROGRAM, TINY_F16, TINY_Q4_0, TINY_Q8_0, TestCase, main, within

PLACE = ["--raw", "--threads", "1", "--device", "cpu"]
COMMON = [*PLACE, "--ctx", "128", "--json", "--temperature", "0"]
DRAWN = [*PLACE, "--ctx", "128", "--json", "--temperature", "1"]
PROMPT = "Two processes compute this."
MPIRUN = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "-np", "2"]


def environment(more):
    return {**os.environ, "GABBRO_PLUGIN_PATH": str(BUILD / "lib"), **more}


@unittest.skipIf(shutil.which("mpirun") is None, "mpirun is missing: install openmpi-bin")
class Processes(TestCase):
    def run_ranks(self, *arguments, more=None):
        command = [*MPIRUN, str(PROGRAM), "run", *map(str, arguments)]
        return subprocess.run(command, env=environment(more or {}), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120, check=False)

    def answer(self, model, *options, common=COMMON):
        done = self.run_ranks(model, PROMPT, *common, "-n", "8", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)  # rank 0 alone prints

    def alone(self, model):
        return json.loads(self.succeeds("run", model, PROMPT, *COMMON, "-n", "8").out)

    def test_tokens_are_those_of_one_process(self):
        for model in (TINY_F16, TINY_Q8_0, TINY_Q4_0):
            expected = self.alone(model)["token_ids"]
            for split in ("layers", "tensor", "auto"):
                self.assertEqual(self.answer(model, "--split", split)["token_ids"], expected, (model, split))

    def test_shares_and_a_random_seed(self):
        expected = self.alone(TINY_F16)["token_ids"]
        self.assertEqual(self.answer(TINY_F16, "--split", "tensor", "--tensor-split", "3,1")["token_ids"], expected)
        drawn = self.answer(TINY_F16, "--split", "layers", common=DRAWN)
        seed = ["--seed", str(drawn["seed"])]
        alone = json.loads(self.succeeds("run", TINY_F16, PROMPT, *DRAWN, "-n", "8", *seed).out)
        self.assertEqual(alone["token_ids"], drawn["token_ids"])  # layers have the bits of one process

    def test_refusals(self):
        done = self.run_ranks(TINY_F16, PROMPT, *COMMON, "--devices", "0,1")
        self.assertIn("error: --devices does not go with several processes of mpirun", done.stderr)
        self.assertEqual(done.returncode, 2, done.stderr)
        done = self.run_ranks(TINY_F16, PROMPT, *COMMON, "--tensor-split", "1,2,3")
        self.assertIn("--tensor-split: 3 shares for 2 processes", done.stderr)
        done = self.run_ranks(TINY_F16, PROMPT, *COMMON, more={"GABBRO_MPI_LIBRARY": "/nowhere/libmpi.so"})
        self.assertIn("error: GABBRO_MPI_LIBRARY: /nowhere/libmpi.so", done.stderr)

    def test_another_mpi_is_refused_by_name(self):
        source, library = self.folder / "mpich.c", self.folder / "libmpi.so"
        source.write_text('int MPI_Get_library_version(char* text, int* length) {\n'
                          '  const char* from = "MPICH Version: 4.0.2\\nmore";\n'
                          '  for (*length = 0; from[*length] != 0; ++*length) text[*length] = from[*length];\n'
                          '  return 0;\n}\n')
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        done = self.run_ranks(TINY_F16, PROMPT, *COMMON, more={"GABBRO_MPI_LIBRARY": str(library)})
        self.assertIn(f"error: {library} is MPICH Version: 4.0.2: only Open MPI is supported", done.stderr)
        self.assertEqual(done.returncode, 1, done.stderr)
        variables = {"PMI_SIZE": "2", "PMI_RANK": "0"}
        result = subprocess.run([PROGRAM, "run", TINY_F16, PROMPT, *COMMON], env=environment(variables), capture_output=True,
                                text=True, check=False)
        self.assertIn("error: the launcher of this process is not Open MPI's (PMI_SIZE is set)", result.stderr)

    def test_a_lost_rank_ends_both_within_5_seconds(self):
        for number in (signal.SIGKILL, signal.SIGSTOP):
            for rank in (0, 1):
                with self.subTest(signal=number, rank=rank):
                    within(5, lambda: self.seconds_of_a_loss(rank, number))

    def seconds_of_a_loss(self, rank, number):
        prompts = self.file("prompts.txt", "".join(f"Prompt {i}\n" for i in range(1000)))
        command = [*MPIRUN, str(PROGRAM), "run", str(TINY_F16), "--prompts", str(prompts), *PLACE, "--split", "tensor",
                   "-n", "3000", "--ctx", "4096", "--temperature", "0"]
        job = subprocess.Popen(command, env=environment({}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
        try:
            self.assertTrue(job.stdout.readline(), "the first answer")
            os.kill(self.process_of(job.pid, rank), number)
            begin = time.monotonic()
            output = job.communicate(timeout=20)[0].decode(errors="replace")
            seconds = time.monotonic() - begin
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn(f"rank {rank}", output[-4000:])
        return seconds

    def process_of(self, launcher, rank):
        """The process of a rank below mpirun."""
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError):
                continue
            if parent == launcher and f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
                return int(entry)
        raise AssertionError(f"no process of rank {rank}")


if __name__ == "__main__":
    main()
