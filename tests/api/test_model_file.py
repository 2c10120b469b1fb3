#!/usr/bin/env python3
"""A model file that is cut, removed, replaced or written to, while it is loaded and while it is
served: an error that names it, or the answer of the model that was loaded; never a crash."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import Cases, Server, events, parse, read_all, real_model  # noqa: E402
from untied import write_untied  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("model files that change while in use")
INGOT = os.environ.get("INGOT", "build/release/ingot")
CHAT = {
    "messages": [{"role": "user", "content": "Name a colour."}],
    "max_tokens": 8,
    "temperature": 0,
}


def copy_of(source, folder, name="model.gguf"):
    return shutil.copy(source, os.path.join(folder, name))


def drop_from_memory(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def answer(s):
    status, body = s.json("POST", "/v1/chat/completions", CHAT)
    return body["choices"][0]["message"]["content"] if status == 200 else body


def stream_while(s, change):
    """Streams a long answer, calls change() after its first tokens; returns the data frames."""
    data = json.dumps(dict(CHAT, max_tokens=1500, ignore_eos=True, stream=True)).encode()
    with s.connect() as c:
        c.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(data) + data
        )
        first = b""
        while first.count(b"data: ") < 5:
            first += c.recv(4096)
        change()
        return events(parse(first + read_all(c, 60))[2])


def fails_the_request(s, name, path, change):
    frames = stream_while(s, change)
    last = json.loads(frames[-2])
    message = last.get("error", {}).get("message", "")
    case(
        f"{name}: the running request fails and says why",
        path in message and "cut short or written to" in message and frames[-1] == "[DONE]",
        frames[-2:],
    )
    status, body = s.json("POST", "/v1/chat/completions", CHAT)
    case(f"{name}: the next one too", status == 500 and path in body["error"]["message"], body)
    case(
        f"{name}: the server lives",
        s.request("GET", "/health")[0] in (200, 503) and s.process.poll() is None,
    )
    case(f"{name}: and ends with status 0", s.stop() == 0, s.log_lines[-3:])


def cut_while_serving(untied, folder):
    path, offset = copy_of(untied[0], folder), untied[1]
    drop_from_memory(path)
    with Server(path, "--context", "2048") as s:
        fails_the_request(
            s, "cut in its embedding", path, lambda: os.truncate(path, offset)
        )
    path = copy_of(untied[0], folder)
    with Server(path, "--context", "2048") as s:
        fails_the_request(s, "cut to nothing", path, lambda: os.truncate(path, 0))


def written_while_serving(untied, folder):
    path, offset = copy_of(untied[0], folder), untied[1]

    def write():
        with open(path, "r+b") as f:
            f.seek(offset)
            f.write(b"\x11" * 4096)

    with Server(path, "--context", "2048") as s:
        fails_the_request(s, "written to", path, write)


def lives_on(name, source, folder, change):
    path = copy_of(source, folder)
    with Server(path, "--context", "2048") as s:
        before = answer(s)
        change(path)
        after = answer(s)
        case(
            f"{name}: answers as before",
            isinstance(before, str) and after == before,
            (before, after),
        )
        case(f"{name}: its properties too", s.request("GET", "/props")[0] == 200)
        case(f"{name}: ends with status 0", s.stop() == 0, s.log_lines[-3:])


def renamed_over(path):
    with open(path + ".new", "wb") as f:
        f.write(b"GGUF")
    os.rename(path + ".new", path)


def generate(path):
    p = subprocess.run(
        [INGOT, "generate", path, "-p", "Hi", "-n", "2", "-t", "1", "-q"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return p.returncode, p.stderr


def cut_while_loading(untied, folder):
    outcomes, wrong = set(), []
    for step in range(24):
        path = copy_of(untied[0], folder)
        drop_from_memory(path)
        size = (0, untied[1], untied[1] // 2)[step % 3]
        timer = threading.Timer(0.01 + 0.012 * step, lambda: os.truncate(path, size))
        timer.start()
        status, text = generate(path)
        timer.join()
        outcomes.add(status)
        one_line = len(text.strip().splitlines()) == 1
        if status not in (0, 1) or (status == 1 and not (one_line and path in text)):
            wrong.append((step, status, text))
    case("cut while loading: an error of one line or an answer", not wrong, wrong[:3])
    case("cut while loading: some loads failed", 1 in outcomes, outcomes)


def cut_before_loading(untied, folder):
    path = copy_of(untied[0], folder)
    wrong = []
    for percent in list(range(99, 0, -7)) + [0]:
        os.truncate(path, os.path.getsize(untied[0]) * percent // 100)
        status, text = generate(path)
        if status != 1 or len(text.strip().splitlines()) != 1 or path not in text:
            wrong.append((percent, status, text))
    case("cut before loading", not wrong, wrong[:3])


with tempfile.TemporaryDirectory() as folder:
    untied_path = os.path.join(folder, "untied.gguf")
    untied = (untied_path, write_untied(MODEL, untied_path)[0])
    cases.run("cut while serving", lambda: cut_while_serving(untied, folder))
    cases.run("written while serving", lambda: written_while_serving(untied, folder))
    for name, change in (("removed", os.unlink), ("renamed over", renamed_over)):
        cases.run(name, lambda: lives_on(name, untied_path, folder, change))
    cases.run(
        "cut, nothing mapped",
        lambda: lives_on(
            "cut to nothing when every weight is in memory",
            MODEL,
            folder,
            lambda path: os.truncate(path, 0),
        ),
    )
    cases.run("cut while loading", lambda: cut_while_loading(untied, folder))
    cases.run("cut before loading", lambda: cut_before_loading(untied, folder))
sys.exit(1 if cases.failed else 0)
