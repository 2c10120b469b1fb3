#!/usr/bin/env python3
"""Writes tests/data/jinja/extra.json: small templates with what Jinja2 makes of them.

Needs the package jinja2. The environment is the one transformers sets up (its tojson,
raise_exception, strftime_now, generation block). A failure is recorded by its kind.
Usage: tools/gen_jinja_cases.py < tests/data/jinja/extra_templates.txt > tests/data/jinja/extra.json
The input has one template a line; \\n in it is a newline. All of them see CONTEXT.
"""
import copy
import datetime
import json
import sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError

CONTEXT = {
    "s": "Hello, World", "u": "ñandú ÉÈ ß", "e": "", "i": 7, "n": -3, "f": 2.5, "t": True,
    "z": None,
    "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "d": {"b": 1, "a": [1, {"x": None}], "c": "v"},
    "m": [{"role": "user", "content": "hi", "n": 2}, {"role": "assistant", "content": "ho", "n": 1},
          {"role": "user", "content": None, "n": 3}],
    "big": 9007199254740993, "neg": -0.0, "em": "a😀b", "nl": "one\ntwo\r\nthree\n",
    "nested": {"a": {"b": {"c": [10, 20, {"d": "deep"}]}}},
}
CLOCK = datetime.datetime(2025, 3, 9, 14, 5, 7)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_run")
        return nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


class Raised(jinja2.exceptions.TemplateError):
    pass


class Namespace(jinja2.utils.Namespace):
    """As transformers has it: no names with a leading underscore."""

    def __init__(*args, **kwargs):
        for name in dict(*args[1:], **kwargs):
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(*args, **kwargs)

    def __setitem__(self, name, value):
        Namespace.check(name)
        super().__setitem__(name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"underscore-prefixed attribute {name!r}")


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])

    def raise_exception(message):
        raise Raised(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["namespace"] = Namespace
    env.globals["strftime_now"] = CLOCK.strftime
    return env


def outcome(env, source, context):
    try:
        return {"expect": env.from_string(source).render(**copy.deepcopy(context))}
    except Raised as e:
        return {"error": "raised", "message": str(e)}
    except SecurityError as e:
        return {"error": "security", "message": str(e)}
    except jinja2.UndefinedError as e:
        return {"error": "undefined", "message": str(e)}
    except (jinja2.TemplateSyntaxError, jinja2.exceptions.TemplateAssertionError, SyntaxError) as e:
        return {"error": "syntax", "message": str(e)}
    except Exception as e:
        return {"error": "value", "message": str(e)}


def main():
    env = environment()
    cases = []
    for number, line in enumerate(sys.stdin, 1):
        source = line.rstrip("\n").replace("\\n", "\n")
        if source:
            cases.append({"name": f"line {number}", "template": source,
                          **outcome(env, source, CONTEXT)})
    print('{"context":' + json.dumps(CONTEXT, ensure_ascii=False, separators=(",", ":")))
    print(',"cases":[')
    print(",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases))
    print("]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
