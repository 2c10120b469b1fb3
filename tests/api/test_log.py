#!/usr/bin/env python3
"""The server's log: columns, notices, --quiet, --verbose, --log-json, the row on a terminal; and
--loop-guard, which says what it cut."""

import json
import os
import pty
import re
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import Cases, Server, real_model, wait_until  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("the log of a live server")
URL = "/v1/chat/completions"
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}
HEADER = "          endpoint   prompt  cached   ttft     out   tok/s  finish        total"
ROW = re.compile(
    r"^\d\d:\d\d:\d\d  (chat|complete) {1,5}.{8}.{8}.{7}.{8}.{8}  (.{12})( {0,6}[0-9:.]+s?)(  .*)?$"
)


def after(s):
    """The log behind the banner, of a server that has ended."""
    code = s.stop()
    case("status 0", code == 0, s.log_lines[-3:])
    start = next((i for i, line in enumerate(s.log_lines) if "listening on" in line), -1)
    return s.log_lines[start + 1 :]


def traffic(s):
    s.request("POST", URL, CHAT)
    s.request("POST", URL, dict(CHAT, messages=[]))
    s.request("GET", "/version")
    s.request("GET", "/nothing")


def rows():
    with Server(MODEL, "--context", "512") as s:
        traffic(s)
        lines = after(s)
    case("header first", lines and lines[0] == HEADER, lines[:1])
    table = [line for line in lines if ROW.match(line)]
    case("a row for each generation", len(table) == 2, lines)
    others = [line for line in lines[1:] if line not in table and "stopping" not in line]
    case("no row for others", not others, others)
    case("columns", [ROW.match(x).group(2).strip() for x in table] == ["length", "400"], table)
    case("an error has its reason", ROW.match(table[1]).group(4), table)
    case("dashes", table[1].count("--") == 5, table)


def notices():
    with Server(MODEL, "--context", "4096", "--drain-timeout", "0.2") as s:
        body = dict(CHAT, max_tokens=100000, ignore_eos=True)
        t = threading.Thread(target=lambda: s.request("POST", URL, body))
        t.start()
        wait_until(lambda: s.json("GET", "/health")[1]["active_requests"] == 1, 10)
        lines = after(s)
        t.join()
    notice = next((line for line in lines if "•" in line), "")
    case("the dot is in the column of endpoints", notice.find("•") == 10, lines)
    case("text in the next column", notice[10:19].strip() == "•" and notice[19] != " ", notice)


def quiet():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/log"
        with Server(MODEL, "--context", "512", "--log-file", path) as s:
            s.stop()
        port = str(s.port)
        from subprocess import DEVNULL, PIPE, Popen

        command = [os.environ["INGOT"], "serve", MODEL, "--port", port, "--quiet"]
        with Popen(command, stdout=DEVNULL, stderr=PIPE, text=True) as process:
            wait_until(lambda: answers(s), 120)
            traffic(s)
            process.terminate()
            lines = process.stderr.read().splitlines()
        case("--quiet: failures only", len(lines) == 2 and " 400 " in lines[1], lines)


def answers(s):
    try:
        return s.request("GET", "/readyz")[0] == 200
    except OSError:
        return False


def verbose():
    with Server(MODEL, "--context", "512", "--verbose", "--lookup", "8") as s:
        repeat = "one two three four five six " * 6
        s.request(
            "POST",
            URL,
            dict(CHAT, max_tokens=40, messages=[{"role": "user", "content": repeat}]),
            {"X-Request-Id": "mine-7"},
        )
        traffic(s)
        lines = [line for line in after(s) if "•" in line]
    access = [line[19:] for line in lines if re.search(r" \d+\.\d ms ", line)]
    case("an access line for every route", len(access) == 5, lines)
    case("method, path, status", access[4].startswith("GET /nothing 404 "), access)
    case("the request's id", " mine-7" in access[0], access)
    case("how the time went", re.search(r"prefill .* decode ", access[0]), access)
    case("no prompt text", not any("one two" in line for line in access), access)


def as_json():
    with Server(MODEL, "--context", "512", "--log-json", "--verbose") as s:
        traffic(s)
        lines = after(s)
    values = [json.loads(line) for line in lines]
    rows = [v for v in values if "endpoint" in v]
    case("every line is an object", len(values) >= 6 and len(rows) == 2, lines)


class Terminal(Server):
    """A server whose log is a terminal."""

    def __init__(self, *flags):
        ours, theirs = pty.openpty()
        self.screen = b""
        from subprocess import DEVNULL, Popen

        self.log_lines, self.port = [], None
        program = os.environ["INGOT"]
        command = [program, "serve", MODEL, "--port", "0", "--threads", "1", *flags]
        self.process = Popen(command, stdout=DEVNULL, stderr=theirs)
        os.close(theirs)
        self.reader = threading.Thread(target=self.read_screen, args=(ours,), daemon=True)
        self.reader.start()
        wait_until(lambda: re.search(rb"127.0.0.1:\d+\r\n", self.screen), 60)
        self.port = int(re.search(rb"127.0.0.1:(\d+)\r\n", self.screen).group(1))

    def read_screen(self, ours):
        try:
            while True:
                self.screen += os.read(ours, 65536)
        except OSError:
            os.close(ours)  # the other side is closed


def live_row():
    with Terminal("--context", "4096") as s:
        body = dict(CHAT, max_tokens=100000, ignore_eos=True)
        for n, text in ((1, rb"\d+ tokens  \d+\.\d tok/s"), (2, rb"2 requests: ")):
            threads = [
                threading.Thread(
                    target=lambda: s.request("POST", URL, dict(body, max_tokens=150))
                )
                for _ in range(n)
            ]
            seen = len(s.screen)
            for t in threads:
                t.start()
            case(
                f"{n} running on a terminal",
                wait_until(lambda: re.search(text, s.screen[seen:]), 20) is not None,
                s.screen[seen:][-300:],
            )
            for t in threads:
                t.join()
        time.sleep(0.6)
        case(
            "nothing runs, nothing is drawn",
            s.screen.endswith((b"\r\n", b"\r\x1b[K")),
            s.screen[-80:],
        )
        wiped = s.screen.split(b"\r\x1b[K")
        case(
            "rows stand on lines of their own", any(b" length " in x for x in wiped), wiped[-3:]
        )
        case("status 0", s.stop() == 0)
    with Server(MODEL, "--context", "512") as s:
        traffic(s)
        case("never on a pipe", not any("\x1b" in line for line in after(s)))


def loop_guard():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/turns.json"
        with open(path, "w") as f:
            json.dump(["The same again and again. " * 400], f)
        body = dict(CHAT, max_tokens=400)
        for flags, cut in ((("--loop-guard",), True), ((), False)):
            with Server(MODEL, "--context", "4096", "--script", path, *flags) as s:
                status, answer = s.json("POST", URL, body)
                lines = after(s)
            n = answer["usage"]["completion_tokens"]
            choice = answer["choices"][0]
            said = any("repeats itself" in line for line in lines)
            case(f"loop guard {cut}: length", choice["finish_reason"] == "length", choice)
            case(f"loop guard {cut}: tokens", 256 <= n <= 288 if cut else n == 400, n)
            case(f"loop guard {cut}: said", said == cut, lines)


for function in (rows, notices, quiet, verbose, as_json, live_row, loop_guard):
    cases.run(function.__name__, function)
sys.exit(1 if cases.failed else 0)
