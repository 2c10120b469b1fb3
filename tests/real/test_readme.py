#!/usr/bin/env python3
"""The examples of README.md, run as they stand against SmolLM2.

A fenced block `console` holds commands ("$ ", lines that end with a backslash or an open quote
go on) and what they print; a block `python` is a program, and the `text` block behind it what
that prints. Numbers may differ, "..." stands for any text, and where a line of it stands alone,
for any lines. After the comment `<!-- input: ... -->`, printed lines that begin with "> " are
typed instead. A command `ingot serve` goes on running until the end. Only a block behind
`<!-- not run: REASON -->` is left out."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "api"))
from live_server import Cases, Server, real_model  # noqa: E402

cases = Cases()
BLOCK = re.compile(r"(?:^<!-- (.+?) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def pattern_of(expected):
    """A regular expression of the expected text: numbers and dots stand for others."""
    text = NUMBER.sub("0", expected.strip())
    parts = [re.escape(re.sub(r"\s+", " ", part)) for part in re.split(r"\.\.\.", text)]
    return re.compile(".*?".join(parts), re.S)


def check(name, expected, found):
    found = re.sub(r"\s+", " ", NUMBER.sub("0", found)).strip()
    cases.case(name, pattern_of(expected).search(found) is not None, f"{found[-250:]!r}")


def commands_of(body):
    """(command, what it prints) of a console block."""
    found, inside = [], False
    for line in body.split("\n"):
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif inside:
            found[-1][0] += "\n" + line
        elif found:
            found[-1][1].append(line)
        inside = bool(found) and not found[-1][1] and is_open(found[-1][0])
    return [(command, "\n".join(lines)) for command, lines in found]


def is_open(command):
    return command.endswith("\\") or command.count("'") % 2 == 1


class Examples:
    def __init__(self, folder):
        self.folder, self.server = folder, None
        os.symlink(os.path.abspath(MODEL), os.path.join(folder, "model.gguf"))
        program = os.path.abspath(os.environ["INGOT"])
        self.env = dict(os.environ)
        self.env["PATH"] = os.path.dirname(program) + os.pathsep + self.env["PATH"]

    def adapt(self, text):
        """The server of the test has a port of its own."""
        return text.replace(":8080", f":{self.server.port}") if self.server else text

    def serve(self, command, expected):
        words = command.split()[2:]
        del words[words.index("--port") : words.index("--port") + 2]
        words[0] = os.path.join(self.folder, words[0])
        self.server = Server(*words)
        check(command, expected, "\n".join(self.server.log_lines))

    def run(self, command, expected, typed):
        if command.startswith("ingot serve"):
            return self.serve(command, expected)
        lines = expected.split("\n") if typed else []
        done = subprocess.run(
            ["bash", "-c", self.adapt(command)],
            input="".join(line[2:] + "\n" for line in lines if line.startswith("> ")),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self.env,
            timeout=300,
        )
        if typed:
            expected = "\n".join(line for line in lines if not line.startswith("> "))
        name = command.split("\n")[0]
        cases.case(f"status of {name}", done.returncode == 0, done.stdout[-200:])
        check(name, expected, done.stdout)

    def python(self, program, expected):
        if importlib.util.find_spec("openai") is None:
            print("not run: the Python example of README.md (there is no package openai)")
            return
        done = subprocess.run(
            [sys.executable, "-c", self.adapt(program)],
            capture_output=True,
            text=True,
            env=self.env,
            timeout=300,
        )
        cases.case("status of the Python program", done.returncode == 0, done.stderr[-300:])
        check("what the Python program prints", expected, done.stdout)


def main():
    with open(os.path.join(ROOT, "README.md")) as f:
        text = f.read()
    blocks = BLOCK.findall(text)
    fences = len(re.findall(r"^```", text, re.M))
    cases.case("each fence is a block", fences == 2 * len(blocks), (fences, len(blocks)))
    run = 0
    with tempfile.TemporaryDirectory() as folder:
        examples = Examples(folder)
        try:
            for i, (comment, kind, body) in enumerate(blocks):
                if comment.startswith("not run: "):
                    continue
                if kind == "console":
                    for command, expected in commands_of(body):
                        examples.run(command, expected, comment.startswith("input: "))
                        run += 1
                elif kind == "python":
                    after = blocks[i + 1] if i + 1 < len(blocks) else ("", "", "")
                    cases.case("a Python block shows its output", after[1] == "text", after[1])
                    examples.python(body, after[2])
                    run += 1
                elif kind != "text":
                    cases.case("kind of a block", False, f"expected console, found {kind!r}")
        finally:
            if examples.server:
                cases.case("the server ends with 0", examples.server.stop() == 0)
    cases.case("there are examples", run >= 8, run)


MODEL = real_model("the examples of README.md")
main()
sys.exit(1 if cases.failed else 0)
