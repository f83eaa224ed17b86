"""Renders every template of a folder with Jinja2 and with our interpreter, over many conversations, and compares.

    TZ=UTC python3 compare_templates.py FOLDER --driver render_templates [--show 5]

The driver is render_templates.cc, linked with the text library. Where Jinja2 fails, ours must fail too; a message that
the template itself raises must be the same. Exits with 1 where anything differs.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from conversations import cases
from jinja_reference import NOW, make_environment, render


def same(expected, answer):
    kind, value = expected
    if kind == "text":
        return answer.get("text") == value
    if "error" not in answer:
        return False
    own_message = value.split(": ", 1)[1] if value.startswith(("TemplateError: ", "UndefinedError: ")) else ""
    return " ".join(own_message.split()) in " ".join(answer["error"].split())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--show", type=int, default=3)
    options = parser.parse_args()
    environment = make_environment()
    requests, expected, names = [], [], []
    for path in sorted(options.folder.glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        for name, variables in cases():
            requests.append(json.dumps({"template": template, "variables": variables, "now": NOW}))
            expected.append(render(environment, template, variables))
            names.append((path.name, name))
    result = subprocess.run([options.driver], input="\n".join(requests) + "\n", capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    failures, rendered, shown = {}, {}, 0
    for (template, case), want, answer in zip(names, expected, answers, strict=True):
        rendered[template] = rendered.get(template, 0) + (want[0] == "text")
        if same(want, answer):
            continue
        failures[template] = failures.get(template, 0) + 1
        if shown < options.show:
            shown += 1
            print(f"--- {template} {case}\nexpected {want}\n     got {answer}")
    micros = sorted(answer["us"] for answer in answers)
    print(f"{len(rendered)} templates, {len(answers)} cases, {sum(rendered.values())} rendered by Jinja2")
    print(f"{len(rendered) - len(failures)} templates without a difference; differing cases: {failures}")
    print(f"parse and render: median {micros[len(micros) // 2]} us, 99 % {micros[len(micros) * 99 // 100]} us, most {micros[-1]} us")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
