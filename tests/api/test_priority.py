#!/usr/bin/env python3
"""Priority by API key and in a request, fairness between keys, and what is wrong with a key."""

import json
import os
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import Cases, Server, real_model, wait_until  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("priority by API key")
URL = "/v1/chat/completions"
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}
LOG = ("--log-json", "--context", "1024")


def ask(s, key, name="", **more):
    headers = {"Authorization": f"Bearer {key}", "X-Request-Id": name or key}
    status, _, body = s.request("POST", URL, dict(CHAT, **more), headers, timeout=300)
    return status, json.loads(body)


def rows(s):
    """Names of the requests whose rows are in the log, in the order in which they ended."""
    lines = [json.loads(line) for line in list(s.log_lines) if line.startswith("{")]
    return [line["request_id"] for line in lines if line.get("endpoint")]


def health(s, key):
    return s.json("GET", "/health", headers={"x-api-key": key})[1]


def key_file(folder, text):
    path = f"{folder}/keys.txt"
    with open(path, "wb") as f:
        f.write(text)
    return path


def allowed(folder):
    """A key's priority is what its requests have, and the most that they may ask for."""
    path = key_file(folder, b"# ours\nfree\nlow priority=3 \n")
    with Server(MODEL, *LOG, "--api-keys", path, "--api-key", "top priority=9") as s:
        for key, priority, expected in (
            ("free", 9, 200),
            ("free", None, 200),
            ("top", 9, 200),
            ("low", 3, 200),
            ("low", 0, 200),
            ("low", None, 200),
            ("low", 4, 400),
            ("low", 10, 400),
        ):
            status, body = ask(s, key, priority=priority)
            case(f"{key} asks for {priority}", status == expected, (status, body))
        error = ask(s, "low", priority=4)[1]["error"]
        good = (
            error["param"] == "priority" and "4" in error["message"] and "3" in error["message"]
        )
        case("names the field and both numbers", good, error)
        case("the priority is not part of a key", ask(s, "low priority=3")[0] == 401)


def flood(s, key, n, max_tokens, **more):
    """n requests at once that are running or waiting when this returns."""
    threads = [
        threading.Thread(
            target=ask,
            args=(s, key, f"{key}-{i}"),
            kwargs=dict(more, max_tokens=max_tokens, ignore_eos=True),
        )
        for i in range(n)
    ]
    for t in threads:
        t.start()
    full = wait_until(
        lambda: health(s, key)["active_requests"] + health(s, key)["queued_requests"]
        >= n * 2 // 3,
        60,
    )
    case("the flood is there", full is not None, health(s, key))
    return threads


def single_beside(name, flags, crowd, one, n, most_before):
    """How many rows of the crowd come between a single request and its own row."""
    with Server(MODEL, *LOG, "--parallel", "2", *flags) as s:
        threads = flood(s, crowd, n, 40)
        before = len(rows(s))
        status, body = ask(s, one, "single")
        case(f"{name}: served", status == 200, body)
        wait_until(lambda: "single" in rows(s), 10)
        overtaken = rows(s).index("single") - before
        case(f"{name}: promptly", overtaken <= most_before, (overtaken, rows(s)))
        for t in threads:
            t.join()
        wait_until(lambda: len(rows(s)) == n + 1, 10)
        case(f"{name}: all are served", len(rows(s)) == n + 1, len(rows(s)))


def fair():
    keys = ("--api-key", "crowd", "--api-key", "one")
    single_beside("another key", keys, "crowd", "one", 30, 6)


def by_key():
    """Nothing but the key says that it is urgent; a row of the crowd may be written meanwhile."""
    keys = ("--api-key", "crowd priority=5", "--api-key", "boss priority=9")
    single_beside("a key of priority 9", keys, "crowd", "boss", 20, 3)


def refused(folder):
    hush = "hush-hush"
    long = hush * 200
    for name, text, told in (
        ("too long", f"ok\n{long}\n", ":2: the key has 1800 bytes, at most 1024"),
        ("twice", f"{hush}\n# a comment\n{hush} priority=1\n", ":3: the same key as"),
        ("without a key", f"{hush}\npriority=4\n", ":2: expected KEY"),
        ("no priority", f"{hush} priority=ten\n", ":1: expected nothing behind the key but"),
        ("two words", f"ok\n\n{hush} {hush}\n", ":3: expected nothing behind the key but"),
        ("a NUL", f"ok\n{hush}\0\n", ":2: byte 10 of the key is 0x00"),
        ("empty", "\n# nothing\n", "holds no key"),
    ):
        path = key_file(folder, text.encode())
        done = subprocess.run(
            [os.environ["INGOT"], "serve", MODEL, "--port", "0", "--api-keys", path],
            capture_output=True,
            text=True,
            timeout=60,
        )
        good = done.returncode == 2 and "keys.txt" in done.stderr and told in done.stderr
        case(f"key file: {name}", good and hush not in done.stderr, done)
    for keys, told in (
        (("--api-key", ""), "--api-key 1: an empty key"),
        (("--api-key", hush, "--api-key", hush), "--api-key 2: the same key as --api-key 1"),
        (("--api-key", "ok", "--api-key", f"{hush} x"), "--api-key 2: expected nothing"),
    ):
        command = [os.environ["INGOT"], "serve", MODEL, "--port", "0", *keys]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        good = done.returncode == 2 and told in done.stderr and hush not in done.stderr
        case(f"refused: {told}", good, done)


with tempfile.TemporaryDirectory() as place:
    cases.run("allowed", lambda: allowed(place))
    cases.run("refused", lambda: refused(place))
cases.run("fair", fair)
cases.run("by_key", by_key)
sys.exit(1 if cases.failed else 0)
