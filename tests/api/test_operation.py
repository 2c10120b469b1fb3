#!/usr/bin/env python3
"""Running a server: time limits, the queue's bound, loading, draining, probes, several models."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import (  # noqa: E402
    Cases,
    Server,
    events,
    parse,
    read_all,
    real_model,
    wait_until,
)

cases = Cases()
case = cases.case
MODEL = real_model("operation of a live server")
URL = "/v1/chat/completions"
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}
LONG = dict(CHAT, max_tokens=100000, ignore_eos=True)


def post(body):
    data = json.dumps(body).encode()
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n" % len(data) + data
    )


def whole_seconds(headers):
    value = headers.get("retry-after", "")
    return value.isdigit() and 0 < int(value) <= 120


def health(s):
    return s.json("GET", "/health")[1]


def short_time(s):
    """How long a short answer takes here: a sanitized build is slow."""
    start = time.monotonic()
    s.request("POST", URL, CHAT)
    return time.monotonic() - start


def request_timeout(limit):
    with Server(MODEL, "--context", "8192", "--request-timeout", f"{limit:g}") as s:
        start = time.monotonic()
        status, headers, body = s.request("POST", URL, LONG)
        took = time.monotonic() - start
        error = json.loads(body)["error"]
        case("timeout of a whole answer", status == 504, (status, body))
        case("in time", limit - 0.1 < took < limit + 4, took)
        case("says the limit", f"{limit:g} s" in error["message"], error)
        case("no automatic retry", headers.get("x-should-retry") == "false", headers)
        start = time.monotonic()
        status, _, body = s.request("POST", URL, dict(LONG, stream=True))
        took = time.monotonic() - start
        frames = events(body)
        case("timeout of a stream", status == 200 and frames[-1] == "[DONE]", frames[-2:])
        case("in time", limit - 0.1 < took < limit + 4, took)
        case("ends with an error", "error" in json.loads(frames[-2]), frames[-2:])
        finishes = [
            c.get("finish_reason")
            for f in frames[:-2]
            for c in json.loads(f).get("choices", [])
        ]
        case("and no false finish", finishes and set(finishes) == {None}, set(finishes))
        gone = wait_until(lambda: health(s)["active_requests"] == 0, 5)
        case("the work has ended", gone is not None, health(s))
        case("short ones are answered", s.request("POST", URL, CHAT)[0] == 200)
        s.stop()
        rows = [line for line in s.log_lines if " chat " in line]
        case("log rows", sum(" timeout " in row for row in rows) == 2, rows)


def queue_bound():
    with Server(MODEL, "--context", "8192", "--concurrency", "2") as s:
        held = [s.connect() for _ in range(2)]
        for c in held:
            c.sendall(post(dict(LONG, stream=True)))
            case("accepted", c.recv(12) == b"HTTP/1.1 200")
        for stream in (False, True):
            status, headers, body = s.request("POST", URL, dict(CHAT, stream=stream))
            case("beyond: 429", status == 429, (status, body))
            case("429 has a Retry-After", whole_seconds(headers), headers)
            case("429 is JSON", json.loads(body)["error"]["type"] == "rate_limit_error", body)
        case("others are served", health(s)["request_capacity"] == 2)
        held.pop().close()
        again = wait_until(lambda: s.request("POST", URL, dict(CHAT, stream=True))[0] == 200, 5)
        case("room again", again is not None)
        held.pop().close()
        case("ends with status 0", s.stop() == 0, s.log_lines[-3:])


def exact_bound():
    """Many at one instant: never more than the bound get in."""
    with Server(MODEL, "--context", "8192", "--concurrency", "3") as s:
        held, seen = [], []

        def one():
            c = s.connect()
            held.append(c)
            c.sendall(post(dict(LONG, stream=True)))
            seen.append(c.recv(12)[9:])

        threads = [threading.Thread(target=one) for _ in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        case("exactly the bound", sorted(seen) == [b"200"] * 3 + [b"429"] * 9, sorted(seen))
        for c in held:
            c.close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Starting(Server):
    """A server that is asked from the moment its port is open."""

    def __init__(self):
        self.log_lines, self.port = [], free_port()
        program = os.environ["INGOT"]
        self.process = subprocess.Popen(
            [program, "serve", MODEL, "--port", str(self.port), "--threads", "1"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.announced, self.pause_log = threading.Event(), threading.Event()
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()


def ask(s, method, path, body=None):
    try:
        return s.request(method, path, body, timeout=30)
    except OSError:
        return 0, {}, b""


def loading():
    """The load takes a moment only: an attempt that misses it is repeated."""
    for _ in range(5):
        with Starting() as s:
            wait_until(lambda: ask(s, "GET", "/healthz")[0] == 200, 30)
            ready = ask(s, "GET", "/readyz")
            answer = ask(s, "POST", URL, CHAT)
            state = ask(s, "GET", "/health")
            live = ask(s, "GET", "/healthz")
            up = wait_until(lambda: ask(s, "GET", "/readyz")[0] == 200, 60)
            after = ask(s, "POST", URL, CHAT)
            s.stop()
        if state[0] == 503:
            break
    case("not ready while loading", ready[0] == 503 and whole_seconds(ready[1]), ready)
    case("requests wait for later", answer[0] == 503 and whole_seconds(answer[1]), answer)
    case("says why", b"being loaded" in answer[2], answer)
    case("state", state[0] == 503 and json.loads(state[2])["status"] == "loading", state)
    case("alive", live[0] == 200, live)
    case("ready later", up is not None and after[0] == 200, (up, after))


def probes(s):
    for path, key in (("/healthz", "status"), ("/readyz", "status"), ("/version", "version")):
        status, body = s.json("GET", path)
        case(path, status == 200 and body[key], body)
        head = s.raw(
            b"HEAD %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % path.encode()
        )
        case(f"HEAD {path}", parse(head)[0] == 200 and parse(head)[2] == b"", head)


def request_ids(s):
    for name, given, echoed in (
        ("an id", "a-1_2.3/~", True),
        ("the longest", "x" * 128, True),
        ("too long", "x" * 129, False),
        ("with a blank", "a b", False),
        ("not ASCII", "\u00e9", False),
    ):
        for method, path, body in (
            ("GET", "/version", None),
            ("GET", "/nothing", None),
            ("POST", URL, {}),
            ("POST", URL, dict(CHAT, max_tokens=1, stream=True)),
        ):
            _, headers, _ = s.request(method, path, body, {"X-Request-Id": given})
            got = headers.get("x-request-id")
            case(
                f"{name} in {method} {path}",
                (got == given if echoed else got.startswith("req_"))
                and headers["request-id"] == got,
                headers,
            )


def drain():
    with Server(MODEL, "--context", "8192", "--drain-timeout", "1") as s:
        c, whole, idle = s.connect(30), s.connect(30), s.connect(30)
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        idle.recv(1000)
        c.sendall(post(dict(LONG, stream=True)))
        whole.sendall(post(LONG))
        case("both run", wait_until(lambda: health(s)["active_requests"] == 2, 10) is not None)
        start = time.monotonic()
        s.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        idle.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        case("not ready while draining", b" 503 " in idle.recv(1000).split(b"\r\n")[0])
        refused = False
        try:
            s.connect(5).close()
        except ConnectionRefusedError:
            refused = True
        case("new connections are refused", refused)
        frames = events(parse(read_all(c, 20))[2])
        case("a stream ends with an error", "error" in json.loads(frames[-2]), frames[-2:])
        status, headers, body = parse(read_all(whole, 20))
        case("a whole answer too", status == 503 and whole_seconds(headers), (status, body))
        case("shutting down", b"shutting down" in body, body)
        code = s.process.wait(20)
        took = time.monotonic() - start
        case("status 0", code == 0, code)
        case("after the drain time", 0.9 < took < 4, took)


def two_models(folder):
    """Requests that wait for a model do not hold up those for another one."""
    with Server(folder + "/a.gguf", folder + "/b.gguf", "--context", "1024") as s:
        first, second = [m["id"] for m in s.json("GET", "/v1/models")[1]["data"]]
        done = []

        def load():
            status, body = s.json("POST", URL, dict(CHAT, model=second))
            done.append((status, body.get("model")))

        for _ in range(3):
            threads = [threading.Thread(target=load) for _ in range(6)]
            for t in threads:
                t.start()
            answers = [s.json("POST", URL, dict(CHAT, model=first))[0] for _ in range(3)]
            case("the first is served meanwhile", answers == [200] * 3, answers)
            for t in threads:
                t.join()
            s.json("POST", "/models/unload", {"model": second})
        case("all that waited are answered", done == [(200, second)] * 18, done)


def evictions():
    """State that makes room is counted, by the layer that it left."""
    for flags, host in ((("--cache", "12"), True), (("--cache", "off"), False)):
        with Server(MODEL, "--context", "512", "--parallel", "1", *flags) as s:
            for i in range(8):
                text = " ".join(str(i * 7 + k % 10) for k in range(100))
                s.json("POST", URL, dict(CHAT, messages=[{"role": "user", "content": text}]))
            now = s.json("GET", "/metrics/json")[1]["prefix_cache"]["evictions"]
            case(f"pages that left, {flags}", now["pages"] > 8, now)
            case(f"host copies that left, {flags}", (now["host"] > 0) == host, now)


with Server(MODEL, "--context", "1024") as live:
    for function in (probes, request_ids):
        cases.run(function.__name__, lambda: function(live))
    time_limit = max(1.5, round(5 * short_time(live), 1))
cases.run("request_timeout", lambda: request_timeout(time_limit))
for function in (queue_bound, exact_bound, evictions, loading, drain):
    cases.run(function.__name__, function)
with tempfile.TemporaryDirectory() as place:
    for model_name in ("a", "b"):
        shutil.copy(MODEL, f"{place}/{model_name}.gguf")
    cases.run("two models", lambda: two_models(place))
sys.exit(1 if cases.failed else 0)
