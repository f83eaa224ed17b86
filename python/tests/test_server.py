"""gabbro.server: a server in a process, on the tiny model of the repository."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import gabbro as gb

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "data" / "tiny" / "tiny-q8_0.gguf"
PROGRAM = Path(os.environ.get("GABBRO_PROGRAM") or Path(gb._core.__file__).parents[2] / "bin" / "gabbro")

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def ask(url, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_it_answers_while_the_block_runs():
    with gb.server.Server(MODEL, program=PROGRAM, parallel=2) as server:
        assert server.is_ready()
        assert server.base_url == f"http://127.0.0.1:{server.port}/v1"
        assert "tiny-q8_0" in [model["id"] for model in ask(server.base_url + "/models")["data"]]
        body = {"model": "tiny-q8_0", "prompt": "a", "max_tokens": 4, "ignore_eos": True}
        answer = ask(server.base_url + "/completions", body)
        assert answer["usage"]["completion_tokens"] == 4
        assert "running" in repr(server)
        assert any("listening on" in line for line in server.logs())
        url = server.url
    assert server.process.returncode == 0
    assert not server.is_ready()
    with pytest.raises(urllib.error.URLError):
        ask(url + "/health")


def test_options_become_arguments(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("me:a-key-of-tests-1\n")
    alias = ["short=tiny-q8_0", "other=tiny-q8_0"]
    with gb.server.Server(MODEL, program=PROGRAM, keys=keys, alias=alias, strict_requests=False) as server:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(server.base_url + "/models")
        key = {"Authorization": "Bearer a-key-of-tests-1"}
        for name in ("short", "other"):
            assert ask(f"{server.base_url}/models/{name}", headers=key)["id"] == "tiny-q8_0"


def test_a_model_that_is_not_there():
    with pytest.raises(RuntimeError, match=r"ended with code \d\n.*no-such-model"):
        gb.server.Server("./no-such-model.gguf", program=PROGRAM)


def test_an_unknown_option_and_a_bad_port():
    with pytest.raises(RuntimeError, match="--no-such-option"):
        gb.server.Server(MODEL, program=PROGRAM, no_such_option=3)
    with pytest.raises(ValueError, match="port 65536 is out of range"):
        gb.server.Server(MODEL, program=PROGRAM, port=65536)


def test_a_port_that_is_taken():
    with gb.server.Server(MODEL, program=PROGRAM) as server:
        with pytest.raises(RuntimeError, match=str(server.port)):
            gb.server.Server(MODEL, program=PROGRAM, port=server.port)
        assert server.is_ready()


def test_a_program_that_is_not_there():
    with pytest.raises(FileNotFoundError, match="no/such/program"):
        gb.server.Server(MODEL, program="no/such/program")


def test_a_server_that_dies_is_told(tmp_path):
    server = gb.server.Server(MODEL, program=PROGRAM)
    server.process.kill()
    with pytest.raises(RuntimeError, match="ended with code -9"):
        server.wait_until_ready()
    assert server.stop() == -9
    assert server.stop() == -9


def test_a_program_that_forgets_its_server_leaves_no_process():
    code = f"import gabbro as gb; print(gb.server.Server({str(MODEL)!r}, program={str(PROGRAM)!r}).process.pid)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    pid = int(done.stdout)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} goes on")
