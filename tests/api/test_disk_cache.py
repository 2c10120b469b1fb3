#!/usr/bin/env python3
"""The disk cache: conversations go on after a restart and after kill -9; what is wrong with a file
or the folder is said and costs nothing but the time to compute."""

import glob
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import (
    ROOT,
    Cases,
    Server,
    cache_source,
    real_model,
    told,
    wait_until,
)  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("the disk cache")
STORY = "The lighthouse keeper counted the ships that passed in the night. " * 12
FLAGS = ["--context", "1024"]


def conversation(seed=0):
    return [{"role": "user", "content": f"Story {seed}. {STORY} How many ships were there?"}]


def post(server, messages, n=12):
    body = {"messages": messages, "max_tokens": n, "temperature": 0, "ignore_eos": True}
    return server.json("POST", "/v1/chat/completions", body)


def ask(server, messages, n=12):
    """(text, cached tokens, prompt tokens)"""
    return told(post(server, messages, n))


def more(messages, text):
    follow_up = {"role": "user", "content": "And in the morning?"}
    return messages + [{"role": "assistant", "content": text}, follow_up]


def files(folder):
    return sorted(glob.glob(os.path.join(folder, "*.kv")))


def fill(folder, n=1, flags=()):
    """Answers of n conversations, on disk."""
    texts = []
    with Server(MODEL, *FLAGS, "--cache-dir", folder, *flags) as server:
        for i in range(n):
            texts.append(ask(server, conversation(i))[0])
        server.stop()
        return texts, server.log_lines


def restart(folder):
    text = fill(folder)[0][0]
    messages = more(conversation(), text)
    with Server(MODEL, *FLAGS, "--cache-dir", folder) as server:
        reply = post(server, messages)
        after, cached, n = told(reply)
        case("its timings say where from", cache_source(reply) == "disk", reply)
        case("a restarted server knows the turn", cached > n * 0.9 - 16, (cached, n))
        _, _, metrics = server.request("GET", "/metrics")
        hits = [
            s for s in metrics.decode().splitlines() if 'cache_hits_total{source="disk"}' in s
        ]
        case("it counts as a hit on disk", hits and hits[0].split()[-1] == "1", hits)
        count = len(files(folder))
        case(
            "nothing is written twice", wait_until(lambda: len(files(folder)) > count, 5), count
        )
        sizes = [os.path.getsize(f) for f in files(folder)]
        case("the next turn adds its new pages only", sizes[1] < sizes[0] / 2, sizes)
    with Server(MODEL, *FLAGS) as server:
        case("the answer is the one without it", ask(server, messages)[0] == after, after)
    other = Server(MODEL, *FLAGS, "--cache-dir", folder, "--cache-type-k", "q8_0")
    with other:
        case("other settings know nothing", ask(other, messages)[1] == 0)


def killed(folder):
    with Server(MODEL, *FLAGS, "--cache-dir", folder) as server:
        text = ask(server, conversation(), 12)[0]
        finished = time.monotonic()
        wait_until(lambda: files(folder), 5)
        took = time.monotonic() - finished
        case("a finished turn is on disk within 5 s", files(folder) and took < 5, took)

        def load(i):
            try:
                ask(server, conversation(i + 1), 400)
            except (OSError, ValueError, AssertionError, IndexError):
                pass  # the server dies meanwhile

        threads = [threading.Thread(target=load, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        time.sleep(1.5)
        server.process.kill()
        for t in threads:
            t.join()
    open(os.path.join(folder, os.path.basename(files(folder)[0]) + ".00.tmp"), "w").close()
    with Server(MODEL, *FLAGS, "--cache-dir", folder) as server:
        case("what was half written is gone", not glob.glob(folder + "/*.tmp"))
        _, cached, n = ask(server, more(conversation(), text))
        case("kill -9 under load: the finished turn is there", cached > n * 0.8, (cached, n))


def damage(folder, name, change, gone=True):
    text = fill(folder)[0][0]
    path = files(folder)[0]
    change(path)
    with Server(MODEL, *FLAGS, "--cache-dir", folder) as server:
        answer, cached, _ = ask(server, more(conversation(), text))
        server.stop()
        said = [s for s in server.log_lines if os.path.basename(path) in s]
        case(f"{name}: served", answer != "" and cached < 200, (answer, cached))
        case(f"{name}: an error line", said, server.log_lines)
        size = os.path.getsize(path) if os.path.exists(path) else 0
        case(f"{name}: the file", (size == 0) == gone, size)


def flip(offset):
    def change(path):
        with open(path, "r+b") as f:
            f.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
            byte = f.read(1)
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte[0] ^ 0x55]))

    return change


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def foreign(path):
    with open(path, "wb") as f:
        f.write(b"#!/bin/sh\necho not a cache\n" * 100)


def of_another(path):
    """A whole file of another model under a name of this one."""
    with tempfile.TemporaryDirectory() as folder:
        fill(folder, flags=["--cache-type-v", "q8_0"])
        shutil.copy(files(folder)[0], path)


def bad_folders(folder):
    for where, name in (("/proc/ingot", "a folder that cannot be made"), (MODEL, "a file")):
        with Server(MODEL, *FLAGS, "--cache-dir", where) as server:
            answer, _, _ = ask(server, conversation())
            server.stop()
            said = [s for s in server.log_lines if "error" in s and where in s]
            case(f"{name}: served, with an error line", answer and said, server.log_lines)
    with Server(MODEL, *FLAGS, "--cache-dir", folder) as server:
        program = os.environ.get("INGOT", os.path.join(ROOT, "build", "release", "ingot"))
        second = subprocess.run(
            [program, "serve", MODEL, "--port", "0", "--cache-dir", folder],
            capture_output=True,
            text=True,
            timeout=60,
        )
        case("a second server is refused", second.returncode == 1, second.stderr)
        case("and told why", "another process" in second.stderr, second.stderr)
        ask(server, conversation())
        wait_until(lambda: files(folder), 5)
        os.chmod(folder, 0o500)
        shutil.rmtree(folder)  # worse than read-only, and true for root, too
        answer, _, _ = ask(server, conversation(7))
        server.stop()
        said = [s for s in server.log_lines if "is not kept" in s]
        case("a folder that is gone: served, with an error line", answer and said)


def no_space(folder):
    # A file may not grow beyond 1 MiB: a write fails as on a full disk.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        server = Server(MODEL, *FLAGS, "--cache-dir", folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with server:
        answers = [ask(server, conversation(i))[0] for i in range(2)]
        server.stop()
        said = [s for s in server.log_lines if "is not kept" in s]
        case("no space: served", all(answers), answers)
        case("no space: an error line each", len(said) == 2, server.log_lines)
        case("no space: nothing is left behind", os.listdir(folder) == [], os.listdir(folder))


def limit(folder):
    mib = 1 << 20
    fill(folder, 6, ["--cache-dir-limit", "16"])
    sizes = [os.path.getsize(f) for f in files(folder)]
    case("the folder keeps to its limit", 0 < sum(sizes) <= 16 * mib, sizes)
    with Server(MODEL, *FLAGS, "--cache-dir", folder) as server:
        _, cached, _ = ask(server, conversation(5))
        case("the newest is still there", cached > 100, cached)
        _, cached, _ = ask(server, conversation(0))
        case("the oldest is not", cached < 64, cached)
    sub = os.path.join(folder, "small")
    answers, log = fill(sub, 1, ["--cache-dir-limit", "1"])
    said = [s for s in log if "is not kept" in s]
    case("a turn beyond the limit is not kept, which is said", said and answers[0], log)


def main():
    runs = [
        ("restart", restart),
        ("kill", killed),
        ("byte in a page", lambda d: damage(d, "a byte in a page", flip(50000))),
        ("byte in the index", lambda d: damage(d, "a byte of the index", flip(-200))),
        ("truncated", lambda d: damage(d, "a cut file", cut)),
        ("foreign", lambda d: damage(d, "a foreign file", foreign)),
        ("another", lambda d: damage(d, "another model's file", of_another, gone=False)),
        ("folders", bad_folders),
        ("space", no_space),
        ("limit", limit),
    ]
    wanted = sys.argv[1:]
    for name, function in runs:
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = os.path.join(folder, "cache")
            cases.run(name, lambda: function(path))


main()
sys.exit(1 if cases.failed else 0)
