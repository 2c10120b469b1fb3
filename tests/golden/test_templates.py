#!/usr/bin/env python3
"""Published chat templates render as Jinja2 renders them.

The templates come from the package named in tests/data/jinja/expected_hashes.json, fetched into
build/templates; the repository holds only the hashes of what they must render to
(tools/gen_template_hashes.py).
"""
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from cases import INGOT, case, finish, not_run  # noqa: E402

DATA = "tests/data/jinja"
FOLDER = "build/templates"


def fetch(expected):
    """The folder of the templates, or None and why."""
    names = expected["templates"]
    if all(os.path.exists(os.path.join(FOLDER, n)) for n in names):
        return FOLDER, ""
    os.makedirs(FOLDER, exist_ok=True)
    result = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", "--no-deps",
         "--timeout", "20", "--retries", "2", "--no-binary", expected["package"].split("=")[0],
         "-d", FOLDER, expected["package"]], capture_output=True, text=True, timeout=600)
    archives = [n for n in os.listdir(FOLDER) if n.endswith(".tar.gz")]
    if not archives:
        return None, f"no package registry: {result.stderr.strip()[-200:]}"
    with tarfile.open(os.path.join(FOLDER, archives[0])) as archive:
        for name in names:
            member = archive.extractfile(expected["path"] + "/" + name)
            with open(os.path.join(FOLDER, name), "wb") as out:
                out.write(member.read())
    os.unlink(os.path.join(FOLDER, archives[0]))
    return FOLDER, ""


def outcome(template, context, clock):
    result = subprocess.run([INGOT, "render", "--template", template, "--context", context,
                             "--now", clock], capture_output=True, timeout=60)
    if result.returncode == 0:
        return hashlib.sha256(result.stdout).hexdigest()
    return "failed: " + result.stderr.decode().strip()


def right(wanted, found):
    if wanted.startswith("raised: "):
        return found.startswith("failed: ") and found.endswith(wanted[len("raised: "):])
    if len(wanted) == 64:
        return wanted == found
    return found.startswith("failed: ")


def main():
    with open(f"{DATA}/expected_hashes.json") as f:
        expected = json.load(f)
    with open(f"{DATA}/conversations.json") as f:
        conversations = json.load(f)
    folder, why = fetch(expected)
    if not folder:
        not_run("published chat templates", why)
        return
    contexts = {}
    for name, context in conversations.items():
        contexts[name] = os.path.join(FOLDER, name + ".context.json")
        with open(contexts[name], "w") as f:
            json.dump(context, f, ensure_ascii=False)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for name, template in expected["templates"].items():
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                if not case(f"{name} is the published one",
                            hashlib.sha256(f.read()).hexdigest() == template["sha256"]):
                    continue
            wanted = template["outcomes"]
            found = dict(zip(wanted, pool.map(
                lambda c, p=path: outcome(p, contexts[c], expected["clock"]), wanted)))
            wrong = {c: found[c] for c in wanted if not right(wanted[c], found[c])}
            case(f"{name}: {len(wanted)} conversations", not wrong, wrong)


main()
finish()
