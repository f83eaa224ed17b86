#!/usr/bin/env python3
"""Random requests by schemathesis, from /openapi.json: to a scripted model, and to an encoder of this repository. Usage:
random_requests.py [REQUESTS], at least that many to both together."""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (1, 2)] + [str(pathlib.Path(__file__).resolve().parents[2] / "cli")]
from server_support import Server  # noqa: E402
from test_program import ENCODERS, Program  # noqa: E402

SCRIPT = {"model": {"context": 10_000_000}, "answers": [{"tokens": ["Hel", "lo"]}]}  # no prompt is too long
VECTORS, SCORES = "/(api/embed|embeddings)", "/(rerank|reranking|score)$"
# A request that fits its schema is answered, but for these routes: token ids have to be in the vocabulary of the model, and
# the texts of a score have to be as many on both sides, which no schema says.
UNSAID = "/(completions|detokenize|embeddings|score)$"
CHAT = "/chat/completions$"
CONFIG = f"""
[[operations]]
include-path-regex = "{UNSAID}"
exclude-path-regex = "{CHAT}"
checks.positive_data_acceptance.enabled = false
"""


def run(port, least, *filters):
    """The number of requests, and whether something was found."""
    # schemathesis keeps what it found in the folder where it runs.
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "schemathesis.toml").write_text(CONFIG)
        # Texts with NUL characters are refused everywhere.
        done = subprocess.run([pathlib.Path(sys.executable).parent / "schemathesis", "run", f"http://127.0.0.1:{port}/openapi.json",
                               "--max-examples", str(max(1, least * 3 // 100)), "--phases", "coverage,fuzzing", "--continue-on-failure",
                               "--generation-allow-x00", "false", "--request-timeout", "30", "--no-color", *filters],
                              cwd=folder, stdout=subprocess.PIPE, text=True)
    print(done.stdout if done.returncode else done.stdout[-1500:])
    count = re.search(r"(\d+) generated", done.stdout)
    return int(count[1]) if count else 0, done.returncode != 0


def main():
    least = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    count, failed = 0, False
    with Server(models={"script": SCRIPT}, any_model=True) as server:
        count, failed = run(server.port, least, "--exclude-path-regex", f"{VECTORS}|{SCORES}")
    for encoder, paths in (("bert", VECTORS), ("bert_rerank", SCORES)):
        program = Program(ENCODERS / encoder, "--any-model")
        try:
            more, found = run(program.port, least, "--include-path-regex", paths)
        finally:
            program.end()
        count, failed = count + more, failed or found
    print(f"{count} requests")
    if failed or count < least:
        sys.exit(f"violations were found, or there were fewer than {least} requests")


if __name__ == "__main__":
    main()
