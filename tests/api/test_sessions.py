#!/usr/bin/env python3
"""Named sessions over HTTP: saved, restored after a restart, forked, renamed, deleted; one user
at a time; never evicted; what is damaged is an error, never a miss."""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import Cases, Server, cache_source, real_model, told, wait_until  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("named sessions")
STORY = "The lighthouse keeper counted the ships that passed in the night. " * 12
FLAGS = ["--context", "1024"]


def conversation(seed=0):
    return [{"role": "user", "content": f"Story {seed}. {STORY} How many ships were there?"}]


def more(messages, text, what="And in the morning?"):
    return messages + [
        {"role": "assistant", "content": text},
        {"role": "user", "content": what},
    ]


def ask(server, messages, session=None, **extra):
    """(status, answer)"""
    body = {"messages": messages, "max_tokens": 12, "temperature": 0, "ignore_eos": True}
    if session is not None:
        body["session"] = session
    return server.json("POST", "/v1/chat/completions", {**body, **extra})


def serve(folder, *flags):
    return Server(MODEL, *FLAGS, "--cache-dir", folder, *flags)


def names(server):
    status, answer = server.json("GET", "/v1/sessions")
    assert status == 200, answer
    return [s["name"] for s in answer["data"]]


def files(folder):
    return sorted(glob.glob(os.path.join(folder, "*.kv")))


def manifest(folder, name):
    return os.path.join(folder, "sessions", name + ".session")


def make(folder, name="story", *flags):
    with serve(folder, *flags) as server:
        return told(ask(server, conversation(), name))[0]


def metric(server, source):
    _, _, text = server.request("GET", "/metrics")
    start = f'ingot_cache_hits_total{{source="{source}"}}'
    return [s.split()[-1] for s in text.decode().splitlines() if s.startswith(start)]


def restart(folder):
    with serve(folder) as server:
        text, cached, n = told(ask(server, conversation(), "story"))
        case("a new session begins with nothing", cached == 0, cached)
        case("it is listed", names(server) == ["story"], names(server))
        status, one = server.json("GET", "/v1/sessions/story")
        case("and shown", status == 200 and one["tokens"] >= n and one["bytes"] > 0, one)
        case("nobody uses it", one.get("busy") is False, one)
    case("it is a file of its owner", os.stat(manifest(folder, "story")).st_mode & 0o77 == 0)
    mode = os.stat(os.path.join(folder, "sessions")).st_mode
    case("in a folder of its owner", mode & 0o77 == 0, oct(mode))
    with serve(folder) as server:
        case("a restarted server lists it", names(server) == ["story"], names(server))
        reply = ask(server, more(conversation(), text), "story")
        after, cached, n = told(reply)
        case("its timings say where from", cache_source(reply) == "session", reply)
        case("it goes on where it was", cached > n * 0.9 - 16, (cached, n))
        case("which counts as a session's hit", metric(server, "session") == ["1"])
        first = one["tokens"]
        _, one = server.json("GET", "/v1/sessions/story")
        case("it holds the new turn", one["tokens"] > first, (first, one))
    with Server(MODEL, *FLAGS) as server:
        plain = told(ask(server, more(conversation(), text)))[0]
        case("the answer is the one without it", plain == after, (plain, after))
    with serve(folder, "--cache-type-k", "bf16") as server:
        status, answer = ask(server, conversation(), "story")
        case("other settings: refused", status == 400, (status, answer))
        case("and told why", "other settings" in answer["error"]["message"], answer)


def branch(folder):
    text = make(folder)
    other = more(conversation(), text, "Tell me about the sea.")
    with serve(folder) as server:
        told(ask(server, more(conversation(), text), "story", session_strict=True))
        status, answer = ask(server, other, "story", session_strict=True)
        case("strict: a branch is 409", status == 409, (status, answer))
        code = answer["error"].get("code")
        case("session_diverged", code == "session_diverged", answer)
        _, cached, n = told(ask(server, other, "story"))
        case("another branch reuses what is common", n * 0.6 < cached < n, (cached, n))
    with serve(folder) as server:
        _, cached, n = told(ask(server, other, "story"))
        case("the session holds the new branch", cached > n * 0.9, (cached, n))
        # A wholly different conversation is a session of its own from now on.
        _, cached, n = told(ask(server, conversation(3), "story"))
        case("a prompt that shares little reuses little", cached < n * 0.2, (cached, n))
        case("one name is one session", names(server) == ["story"], names(server))


def fork(folder):
    text = make(folder)
    with serve(folder) as server:
        before = len(files(folder))
        status, one = server.json("POST", "/v1/sessions/story/fork", {"name": "second"})
        case("forked", status == 200 and one["name"] == "second", (status, one))
        case("no state is copied", len(files(folder)) == before, files(folder))
        told(ask(server, more(conversation(), text, "What about the sea?"), "second"))
        status, answer = server.json("POST", "/v1/sessions/story/fork", {"name": "second"})
        case("not over another one", status == 409, (status, answer))
        status, answer = server.json("POST", "/v1/sessions/none/fork", {"name": "third"})
        case("not of nothing", status == 404, (status, answer))
        status, answer = server.json("POST", "/v1/sessions/story", {"name": "tale"})
        case("renamed", status == 200 and answer["name"] == "tale", (status, answer))
        case("both are there", names(server) == ["second", "tale"], names(server))
        _, a = server.json("GET", "/v1/sessions/tale")
        _, b = server.json("GET", "/v1/sessions/second")
        case("the fork went its own way", b["tokens"] > a["tokens"], (a, b))
        status, answer = server.json("DELETE", "/v1/sessions/second")
        case("deleted", status == 200 and answer["deleted"], (status, answer))
        case("its own files are gone", len(files(folder)) == before, files(folder))
        status, answer = server.json("GET", "/v1/sessions/second")
        case("and so is it", status == 404, (status, answer))
    with serve(folder) as server:
        _, cached, n = told(ask(server, more(conversation(), text), "tale"))
        case("the other has lost nothing", cached > n * 0.9 - 16, (cached, n))
        server.json("DELETE", "/v1/sessions/tale")
        case("the last one takes all its files", files(folder) == [], files(folder))
        status, answer = server.json("GET", "/v1/sessions/tale/fork")
        case("fork is a POST", status == 405, (status, answer))


def own_folder(folder):
    mine = ["--session-dir", folder + "/sessions"]
    with Server(MODEL, *FLAGS, *mine) as server:
        text = told(ask(server, conversation(), "story"))[0]
        told(ask(server, conversation(1)))
        server.stop()
        case("no cache: only the session is kept", len(files(mine[1])) == 1, files(mine[1]))
    modes = [os.stat(f).st_mode & 0o777 for f in [mine[1], *glob.glob(mine[1] + "/*")]]
    case("0700 and 0600", modes == [0o700, 0o600, 0o600], modes)
    with serve(folder + "/cache", *mine) as server:
        second = subprocess.run(
            [server.process.args[0], "serve", MODEL, "--port", "0", *mine],
            capture_output=True,
            text=True,
            timeout=60,
        )
        case("one process has it", second.returncode == 1, second.stderr)
        case("it is named", mine[1] + ": another process" in second.stderr, second.stderr)
        _, cached, n = told(ask(server, more(conversation(), text), "story"))
        case("its own folder restores it", cached > n * 0.9 - 16, (cached, n))
        again = conversation(2)
        told(ask(server, again))
        wait_until(lambda: files(folder + "/cache"), 5)
        told(ask(server, again, "second"))
        case("both are there", names(server) == ["second", "story"], names(server))
        case("what a session needs is not left to the cache", len(files(mine[1])) == 3)
        server.json("DELETE", "/v1/sessions/second")
        case("it goes with it", len(files(mine[1])) == 2, files(mine[1]))


def two_at_once(folder):
    with serve(folder) as server:
        body = {"messages": conversation(), "session": "one", "stream": True}
        body.update(max_tokens=600, ignore_eos=True)
        text = json.dumps(body)
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        with server.connect() as stream:
            stream.sendall(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode())
            stream.recv(1)

            def shown():
                return [s["session"] for s in server.json("GET", "/slots")[1]]

            case("/slots tells the name", wait_until(lambda: "one" in shown(), 5), shown())
            status, answer = ask(server, conversation(), "one")
            case("a second request on one name: 409", status == 409, (status, answer))
            code = answer["error"].get("code")
            case("session_conflict", code == "session_conflict", answer)
            status, answer = server.json("DELETE", "/v1/sessions/one")
            case("it cannot be deleted meanwhile", status in (404, 409), (status, answer))
            told(ask(server, conversation(1), "two"))
            case("another name is free", "two" in names(server), names(server))
        case(
            "a client that goes away leaves it",
            wait_until(lambda: ask(server, conversation(), "one", max_tokens=1)[0] == 200, 10),
        )
        for i in range(3):
            status, answer = ask(server, conversation(), "two", max_tokens=2)
            case(f"one after the other: {i}", status == 200, answer)


BAD = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "-a",
    ".a",
    "_a",
    "a b",
    "a\n",
    "a\0b",
    "é",
    "x" * 65,
    "a%2fb",
]


def bad_names(folder):
    with serve(folder) as server:
        for name in BAD:
            status, answer = ask(server, conversation(), name)
            case(f"{name[:8]!r} is no name", status == 400, (status, answer))
        for value in (1, True, ["a"], {"a": 1}):
            status, answer = ask(server, conversation(), value)
            case(f"{value!r} is no name", status == 400, (status, answer))
        for path in ("..", "..%2f..%2fetc", "%2e%2e", "a%00b", "a%2fb", "x" * 65, "a/b/fork"):
            status, _, text = server.request("GET", "/v1/sessions/" + path)
            case(f"/v1/sessions/{path[:16]}", status in (400, 404), (status, text))
        told(ask(server, conversation(), "x" * 64))
        for name in ("../up", "a/b", "", 7):
            status, answer = server.json(
                "POST", "/v1/sessions/" + "x" * 64 + "/fork", {"name": name}
            )
            case(f"no fork to {name!r}", status == 400, (status, answer))
        status, answer = ask(server, conversation(), session_strict=True)
        case("session_strict needs a session", status == 400, (status, answer))
        for extra in ({"n": 2}, {"cache_prompt": False}, {"session_strict": 1}):
            status, answer = ask(server, conversation(), "y", **extra)
            case(f"refused with {extra}", status == 400, (status, answer))
        body = {"prompt": ["a", "b"], "session": "y", "max_tokens": 1}
        status, answer = server.json("POST", "/v1/completions", body)
        case("refused with two prompts", status == 400, (status, answer))
        case("nothing else was made", names(server) == ["x" * 64], names(server))
    here = os.listdir(os.path.join(folder, "sessions"))
    case("nor written", here == ["x" * 64 + ".session"], here)
    case("nor outside", set(os.listdir(os.path.dirname(folder))) == {"cache"})


def killed(folder):
    with serve(folder) as server:
        text = told(ask(server, conversation(), "story"))[0]
        wait_until(lambda: os.path.exists(manifest(folder, "story")), 5)
        case("on disk within 5 s", os.path.exists(manifest(folder, "story")))
        body = {"messages": more(conversation(), text), "session": "story", "stream": True}
        body.update(max_tokens=600, ignore_eos=True)
        text_2 = json.dumps(body)
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        with server.connect() as stream:
            stream.sendall(f"{head}Content-Length: {len(text_2)}\r\n\r\n{text_2}".encode())
            stream.recv(1)
            server.process.kill()
    with serve(folder) as server:
        _, cached, n = told(ask(server, more(conversation(), text), "story"))
        case("kill -9 in a turn: the finished one is there", cached > n * 0.8, (cached, n))


def no_folder(_):
    with Server(MODEL, *FLAGS) as server:
        status, answer = ask(server, conversation(), "story")
        case("without a folder: 400", status == 400, (status, answer))
        case("which names the flag", "--session-dir" in answer["error"]["message"], answer)
        case("and an empty list", names(server) == [])
        status, answer = server.json("DELETE", "/v1/sessions/story")
        case("nothing to delete", status == 400, (status, answer))
        case("others are served", ask(server, conversation())[0] == 200)


def flip(path, offset):
    with open(path, "r+b") as f:
        f.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 0x55]))


def damage(folder, name, change):
    text = make(folder)
    messages = more(conversation(), text)
    change(folder)
    with serve(folder) as server:
        for i in ("once", "twice"):
            status, answer = ask(server, messages, "story")
            case(f"{name}: refused {i}", status == 400, (status, answer))
            said = answer.get("error", {}).get("message", "")
            case(f"{name}: told why {i}", "session story" in said, answer)
        case(f"{name}: still listed", names(server) == ["story"], names(server))
        case(f"{name}: others are served", ask(server, messages)[0] == 200)
        status, answer = ask(server, messages, "story")
        case(f"{name}: still refused", status == 400, (status, answer))
        status, answer = server.json("DELETE", "/v1/sessions/story")
        case(f"{name}: can be deleted", status == 200, (status, answer))
        told(ask(server, messages, "story"))
        case(f"{name}: and made again", names(server) == ["story"])
        _, one = server.json("GET", "/v1/sessions/story")
        case(f"{name}: whole", "damaged" not in one, one)


def symlink(folder):
    path = manifest(folder, "story")
    os.rename(path, path + ".moved")
    os.symlink(path + ".moved", path)


DAMAGES = {
    "a byte in a page": lambda d: flip(files(d)[0], 50000),
    "a byte of an index": lambda d: flip(files(d)[0], -200),
    "a cut file": lambda d: os.truncate(files(d)[0], os.path.getsize(files(d)[0]) // 2),
    "a file that is gone": lambda d: os.unlink(files(d)[0]),
    "a byte of the manifest": lambda d: flip(manifest(d, "story"), 100),
    "an empty manifest": lambda d: os.truncate(manifest(d, "story"), 0),
    "a foreign manifest": lambda d: shutil.copy(__file__, manifest(d, "story")),
    "a manifest behind a link": symlink,
}


def limit(folder):
    with serve(folder, "--cache-dir-limit", "16") as server:
        told(ask(server, conversation(0), "kept"))
        kept = files(folder)
        for i in range(1, 6):
            told(ask(server, conversation(i)))
        wait_until(lambda: len(files(folder)) > 1, 5)
        case("the limit evicts no session", set(kept) <= set(files(folder)), files(folder))
        for i in range(7, 12):
            told(ask(server, conversation(i), f"more-{i}"))
        case("sessions are refused room, not taken", "kept" in names(server), names(server))
        server.stop()
        said = [s for s in server.log_lines if "not saved" in s]
        case("which is said", said, server.log_lines)
    with serve(folder, "--cache-dir-limit", "1") as server:
        case("nor does a smaller one", set(kept) <= set(files(folder)), files(folder))
        _, cached, n = told(ask(server, conversation(0), "kept", max_tokens=1))
        case("it is still whole", cached > n * 0.9, (cached, n))


def main():
    runs = [
        ("restart", restart),
        ("branch", branch),
        ("fork", fork),
        ("own folder", own_folder),
        ("killed", killed),
        ("two", two_at_once),
        ("names", bad_names),
        ("nowhere", no_folder),
        ("limit", limit),
    ]
    for what, change in DAMAGES.items():
        runs.append((what, lambda d, what=what, change=change: damage(d, what, change)))
    wanted = sys.argv[1:]
    for name, function in runs:
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = os.path.join(folder, "cache")
            cases.run(name, lambda: function(path))


main()
sys.exit(1 if cases.failed else 0)
