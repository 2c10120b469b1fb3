#!/usr/bin/env python3
"""The official OpenAI client for node against a live server with a real model."""

import os
import re
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import ROOT, Server  # noqa: E402

HERE = os.path.join(ROOT, "tests", "api", "node")
WORK = os.path.join(ROOT, "build", "api-node")


def not_run(reason):
    print(f"not run: the openai package for node ({reason})")
    sys.exit(0)


node, npm, model = (os.environ.get(n) for n in ("INGOT_NODE", "INGOT_NPM", "INGOT_SMOLLM2"))
if not node or not npm:
    not_run("there is no node 22")
if not model:
    not_run("there is no SmolLM2")
os.makedirs(WORK, exist_ok=True)
for name in os.listdir(HERE):
    with open(os.path.join(HERE, name), "rb") as source, open(
        os.path.join(WORK, name), "wb"
    ) as copy:
        copy.write(source.read())
if not os.path.isdir(os.path.join(WORK, "node_modules", "openai")):
    install = subprocess.run(
        [*shlex.split(npm), "install", "--no-audit", "--no-fund", "--silent"],
        cwd=WORK,
        capture_output=True,
        text=True,
    )
    if install.returncode:
        not_run("npm cannot install it")
with Server(model, "--context", "4096", "--model-name", "smollm2") as server:
    env = dict(os.environ, INGOT_URL=f"http://127.0.0.1:{server.port}/v1")
    run = subprocess.run(
        [node, "--test", "--test-reporter=tap", "openai.test.mjs"],
        cwd=WORK,
        capture_output=True,
        text=True,
        env=env,
        timeout=600,
    )
failed = 0
for line in run.stdout.splitlines():
    found = re.match(r"(ok|not ok) \d+ - (.*)", line)
    if found:
        print(f"{found[1]} openai: {found[2]}")
        failed += found[1] != "ok"
if failed or run.returncode:
    print(run.stdout[-6000:], run.stderr[-2000:], file=sys.stderr)
sys.exit(1 if failed or run.returncode else 0)
