"""Jinja2 with the settings of transformers' chat templates, and a fixed time: the reference of our interpreter."""

import copy
import datetime
import functools
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1753920000  # 2025-07-31 00:00:00 UTC; run with TZ=UTC


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def make_environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(format):
        return datetime.datetime.fromtimestamp(NOW).strftime(format)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment


@functools.lru_cache(maxsize=8)  # compiling is what takes the time
def compile_template(environment, template):
    return environment.from_string(template)


def render(environment, template, variables):
    """("text", rendered) or ("error", message)."""
    try:
        return "text", compile_template(environment, template).render(**copy.deepcopy(variables))  # += changes lists
    except Exception as error:  # a template can raise anything that Python can
        return "error", f"{type(error).__name__}: {error}"
