#!/usr/bin/env python3
"""GET /slots: the seats of every loaded model, busy ones and idle ones, and nobody's text."""

import json
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import Cases, Server, real_model, wait_until  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("/slots against a live server")
FIELDS = {
    "id",
    "is_processing",
    "model",
    "n_ctx",
    "n_past",
    "phase",
    "session",
    "id_request",
    "tokens_per_second",
    "drafted",
    "accepted",
}
SECRET = "xylophone"


def start(s, **more):
    """A stream that runs until its connection is closed."""
    body = {
        "messages": [{"role": "user", "content": f"Say {SECRET} again and again"}],
        "max_tokens": 100000,
        "ignore_eos": True,
        "stream": True,
        "temperature": 0,
    }
    data = json.dumps(dict(body, **more)).encode()
    c = s.connect()
    c.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: %d\r\n\r\n" % len(data) + data
    )
    return c


def slots(s, query=""):
    return s.json("GET", "/slots" + query)[1]


def busy(s):
    return [x for x in slots(s) if x["is_processing"]]


def idle(s):
    all_slots = slots(s)
    props = s.json("GET", "/props")[1]
    case("as many as /props says", len(all_slots) == props["total_slots"] == 3, all_slots)
    case("fields", all(set(x) == FIELDS for x in all_slots), all_slots)
    case("numbered", [x["id"] for x in all_slots] == [0, 1, 2], all_slots)
    case(
        "idle",
        all(
            x["phase"] == "idle" and x["n_past"] == 0 and not x["id_request"] for x in all_slots
        ),
        all_slots,
    )
    case("context", all(x["n_ctx"] == props["context"] for x in all_slots), all_slots)


def two_streams(s):
    streams = [start(s), start(s, lookup=8)]
    case("two busy", wait_until(lambda: len(busy(s)) == 2, 10) is not None, slots(s))
    decoding = wait_until(lambda: all(x["phase"] == "decode" for x in busy(s)), 10)
    case("both answer", decoding is not None, slots(s))
    before = {x["id"]: x["n_past"] for x in busy(s)}
    case(
        "they grow",
        wait_until(lambda: all(x["n_past"] > before[x["id"]] + 4 for x in busy(s)), 10)
        is not None,
        (before, busy(s)),
    )
    now = busy(s)
    case("a rate", all(x["tokens_per_second"] > 0 for x in now), now)
    case("two names", len({x["id_request"] for x in now}) == 2, now)
    case("names of answers", all(x["id_request"].startswith("chatcmpl-") for x in now), now)
    case(
        "drafts are counted",
        wait_until(lambda: any(x["drafted"] >= x["accepted"] > 0 for x in busy(s)), 10)
        is not None,
        busy(s),
    )
    case("nobody's text", SECRET not in json.dumps(slots(s)))
    for c in streams:
        c.close()
    case("idle again", wait_until(lambda: not busy(s), 5) is not None, slots(s))


def under_load(s):
    """Readers never wait for a pass, and never see half of one."""
    stop = threading.Event()
    bad = []

    def reader():
        while not stop.is_set():
            for x in slots(s):
                if x["is_processing"] != (x["phase"] != "idle") or x["n_past"] > x["n_ctx"]:
                    bad.append(x)

    readers = [threading.Thread(target=reader) for _ in range(3)]
    for t in readers:
        t.start()
    for _ in range(6):
        c = start(s, max_tokens=12)
        c.settimeout(60)
        read_until_done(c)
    stop.set()
    for t in readers:
        t.join()
    case("whole states under load", not bad, bad[:2])


def read_until_done(c):
    data = b""
    while b"[DONE]" not in data:
        piece = c.recv(65536)
        if not piece:
            break
        data += piece
    c.close()


def keys():
    with Server(MODEL, "--api-key", "k", "--context", "256", "--parallel", "1") as s:
        case("a key is needed", s.request("GET", "/slots")[0] == 401)
        status, body = s.json("GET", "/slots", headers={"x-api-key": "k"})
        case("with it", status == 200 and len(body) == 1, body)
        status, _ = s.json("GET", "/slots?model=nobody", headers={"x-api-key": "k"})
        case("of nobody", status == 404)
        c = s.raw(
            b"HEAD /slots HTTP/1.1\r\nHost: localhost\r\nx-api-key: k\r\n"
            b"Connection: close\r\n\r\n"
        )
        case("HEAD", c.startswith(b"HTTP/1.1 200") and c.endswith(b"\r\n\r\n"), c)


with Server(MODEL, "--context", "1024", "--parallel", "3") as live:
    for function in (idle, two_streams, under_load):
        cases.run(function.__name__, lambda: function(live))
    case("ends with status 0", live.stop() == 0, live.log_lines[-3:])
cases.run("keys", keys)
sys.exit(1 if cases.failed else 0)
