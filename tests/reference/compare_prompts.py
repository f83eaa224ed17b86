#!/usr/bin/env python3
"""Compares the prompts of `gabbro template` with Jinja2, over every template of a folder and many conversations.

A template that keeps the text of a user message, and of a system and a user message, has to be rendered as by Jinja2 in
every conversation that Jinja2 renders; of others only the first kind is compared. Needs jinja2. Exits with 1 where
anything differs. Usage: TZ=UTC compare_prompts.py [FOLDER] [--program gabbro] [--show 5]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from conversations import cases, system, user
from jinja_reference import make_environment, render

ROOT = pathlib.Path(__file__).resolve().parents[2]


def keeps(environment, template, messages, variables):
    kind, text = render(environment, template, {**variables, "messages": messages, "tools": None})
    return kind == "text" and all(message["content"] in text for message in messages)


def prompt_of(program, template, variables):
    """The text, or None."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [program, "template", template, "--log-level", "error"]
        for name in "messages", "tools":
            if variables[name] is not None:
                path = pathlib.Path(folder, f"{name}.json")
                path.write_text(json.dumps(variables[name]))
                arguments += [f"--{name}", path]
        for name, value in variables.items():
            if name not in ("messages", "tools", "add_generation_prompt"):
                arguments += ["--var", f"{name}={json.dumps(value)}"]
        if not variables["add_generation_prompt"]:
            arguments.append("--no-generation-prompt")
        done = subprocess.run(arguments, capture_output=True)
        return done.stdout.decode() if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=ROOT / "tests" / "data" / "templates")
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "bin" / "gabbro"))
    parser.add_argument("--show", type=int, default=5)
    options = parser.parse_args()
    environment = make_environment()
    wanted = []
    for path in sorted(options.folder.glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        if re.search(r"strftime_now|now\(", template):
            continue  # the program has the present time
        for name, variables in cases():
            messages = variables["messages"]
            first = messages[0].get("role") if messages else "user"
            kind, text = render(environment, template, variables)
            if kind != "text" or first == "developer" or not keeps(environment, template, [user("QUESTION")], variables):
                continue
            if first == "system" and not keeps(environment, template, [system("RULES"), user("QUESTION")], variables):
                continue
            wanted.append((path, name, variables, text))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda case: prompt_of(options.program, case[0], case[2]), wanted))
    different = [(path.name, name, text, got) for (path, name, _, text), got in zip(wanted, found, strict=True) if got != text]
    for case in different[:options.show]:
        print("--- {} {}\nexpected {!r}\n     got {!r}".format(*case))
    print(f"{len(wanted)} prompts of {len({case[0] for case in wanted})} templates, {len(different)} differ")
    sys.exit(1 if different or not wanted else 0)


if __name__ == "__main__":
    main()
