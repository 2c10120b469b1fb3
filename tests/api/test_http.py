#!/usr/bin/env python3
"""What the server does with HTTP itself: framing, limits, time, keys, disconnects."""

import gzip
import json
import os
import signal
import socket
import sys
import threading
import time
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import (
    Cases,
    Server,
    real_model,
    events,
    parse,
    read_all,
    wait_until,
)  # noqa: E402

cases = Cases()
case = cases.case
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}
LONG = dict(CHAT, max_tokens=100000, ignore_eos=True, stream=True)
MODEL = real_model("HTTP against a live server")
PATIENCE = 60  # seconds for what is only waited for; a busy machine is slow


def post(body, extra=b"", path=b"/v1/chat/completions"):
    data = json.dumps(body).encode()
    return (
        b"POST "
        + path
        + b" HTTP/1.1\r\nHost: localhost\r\n"
        + extra
        + b"Content-Length: %d\r\n\r\n" % len(data)
        + data
    )


def routes(s):
    status, headers, body = s.request("GET", "/health")
    case("health", status == 200 and json.loads(body)["status"] == "ok", body)
    case("request id", headers.get("x-request-id", "").startswith("req_"), headers)
    status, headers, _ = s.request("GET", "/health", headers={"X-Request-Id": "mine-1"})
    case("request id is echoed", headers.get("x-request-id") == "mine-1", headers)
    status, body = s.json("GET", "/v1/models")
    case("models", status == 200 and body["data"][0]["object"] == "model", body)
    name = body["data"][0]["id"]
    status, body = s.json("GET", f"/v1/models/{quote(name)}?x=1")
    case("one model", status == 200 and body["id"] == name and body["layers"] > 0, body)
    status, body = s.json("GET", "/v1/models/none")
    case("unknown model", status == 404 and body["error"]["code"] == "model_not_found", body)
    status, body = s.json("GET", "/v1/nothing")
    case("unknown route", status == 404 and body["error"]["type"] == "not_found_error", body)
    status, headers, _ = s.request("GET", "/v1/chat/completions")
    case("wrong method", status == 405 and "POST" in headers.get("allow", ""), headers)
    status, headers, _ = s.request("OPTIONS", "/v1/chat/completions")
    case("OPTIONS", status == 204, status)
    get = s.request("GET", "/v1/models")
    raw = s.raw(b"HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    status, headers, body = parse(raw)
    case(
        "HEAD",
        status == 200
        and body == b""
        and headers.get("content-length") == get[1]["content-length"],
        raw,
    )
    for target, expected in (
        ("http://localhost/health", 200),
        ("HTTP://localhost:8080/v1/models?x=1", 200),
        ("http://localhost", 200),
        ("http://evil.example/health", 403),  # the target counts, not the Host field
        ("http://localhost/nothing", 404),
        ("/%00", 404),
        ("/health%00", 404),
        ("/%68ealth", 200),
    ):
        status, _, body = s.request("GET", target)
        case(f"target {target}", status == expected, (status, body))
    status, headers, _ = s.request("GET", "/")
    case("root", status == 200, status)
    status, body = s.json("GET", "/props")
    case(
        "props", status == 200 and body["default_generation_settings"]["source"]["top_k"], body
    )


def framing(s):
    smuggled = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = b"0\r\n\r\n" + smuggled
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
    bad = {
        "length and chunked": head
        + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        + body,
        "two lengths": head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + body,
        "two equal lengths": head + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n" + body,
        "xchunked": head + b"Transfer-Encoding: xchunked\r\n\r\n" + body,
        "gzip, chunked": head + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + body,
        "blank before the colon": head + b"Transfer-Encoding : chunked\r\n\r\n" + body,
        "two hosts": b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n",
        "no host": b"GET /health HTTP/1.1\r\n\r\n",
        "length +5": head + b"Content-Length: +5\r\n\r\n" + body,
        "length 5, 5": head + b"Content-Length: 5, 5\r\n\r\n" + body,
        "bad chunk": head + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        "bad name": b"GET /health HTTP/1.1\r\nHost: localhost\r\nA(b: 1\r\n\r\n",
    }
    for name, data in bad.items():
        answer = s.raw(data, timeout=10)
        # never the answer to the request behind; the library repeats its own 400 at times
        case(
            f"framing: {name}",
            answer[9:12] in (b"400", b"413", b"")
            and b"HTTP/1.1 200" not in answer
            and b'"object":"list"' not in answer,
            answer,
        )
    two = post(CHAT) + post(dict(CHAT, max_tokens=3), extra=b"Connection: close\r\n")
    answer = s.raw(two, timeout=60)
    case("pipelining", answer.count(b"HTTP/1.1 200") == 2, answer)
    data = json.dumps(CHAT).encode()
    chunked = (
        b"".join(b"%x\r\n%s\r\n" % (1, data[i : i + 1]) for i in range(len(data)))
        + b"0\r\n\r\n"
    )
    answer = s.raw(head + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked)
    case("chunked request", parse(answer)[0] == 200, answer)
    answer = s.raw(b"GET /health HTTP/1.0\r\n\r\n")
    case("HTTP/1.0", parse(answer)[0] == 200, answer)
    with s.connect() as c:
        c.sendall(
            head
            + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
            % len(data)
        )
        first = c.recv(100)
        c.sendall(data)
        rest = read_all(c)
    case("100-continue", b"100" in first and b"200" in rest, first + rest)
    answer = s.raw(
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: " + b"x" * 9000 + b"\r\n\r\n", 5
    )
    case("long header line", parse(answer)[0] == 431, answer)
    many = b"".join(b"A%d: 1\r\n" % i for i in range(120))
    answer = s.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n", 5)
    case("many headers", parse(answer)[0] == 431, answer)


def bodies(s):
    url = "/v1/chat/completions"
    data = json.dumps(CHAT).encode()
    status, _, _ = s.request("POST", url, gzip.compress(data), {"Content-Encoding": "gzip"})
    case("gzip body", status == 200, status)
    for name, text, expected in (
        ("two members", gzip.compress(data[:9]) + gzip.compress(data[9:]), 200),
        ("an empty member", gzip.compress(data) + gzip.compress(b""), 200),
        ("rubbish behind it", gzip.compress(data) + b"xx", 400),
        ("half a second member", gzip.compress(data) + gzip.compress(b"  ")[:-4], 400),
        ("second member too large", gzip.compress(data) + gzip.compress(b" " * (17 << 20)), 413),
    ):
        status, _, body = s.request("POST", url, text, {"Content-Encoding": "gzip"})
        case(f"gzip: {name}", status == expected, (status, body))
    bomb = gzip.compress(b" " * (17 << 20))
    status, _, body = s.request("POST", url, bomb, {"Content-Encoding": "gzip"})
    case("gzip bomb", status == 413, body)
    status, _, body = s.request(
        "POST", url, gzip.compress(data)[:-4], {"Content-Encoding": "gzip"}
    )
    case("cut gzip", status == 400, body)
    status, _, body = s.request("POST", url, data, {"Content-Encoding": "br"})
    case("unknown coding", status == 415, body)
    start = time.monotonic()
    answer = s.raw(
        b"POST " + url.encode() + b" HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: 17000000\r\n\r\n",
        10,
    )
    case(
        "too large by length", parse(answer)[0] == 413 and time.monotonic() - start < 5, answer
    )
    big = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
    answer = s.raw(
        b"POST " + url.encode() + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n" + big * 18 + b"0\r\n\r\n",
        20,
    )
    case("too large in chunks", parse(answer)[0] == 413, answer)
    wrong = {
        "invalid JSON": (b"{", 400),
        "no object": (b"[]", 400),
        "empty": (b"", 400),
        "deep": (b'{"messages":' + b"[" * 300 + b"]" * 300 + b"}", 400),
        "bad UTF-8": (data.replace(b"Hi", b"H\xff"), 200),
        "lone surrogate": (data.replace(b"Hi", b"\\ud83d"), 200),
        "NUL": (data.replace(b"Hi", b"a\\u0000b"), 200),
        "BOM": (b"\xef\xbb\xbf" + data, 200),
        "large seed": (data.replace(b"{", b'{"seed":18446744073709551615,', 1), 200),
        "too large seed": (data.replace(b"{", b'{"seed":18446744073709551616,', 1), 400),
        "temperature -1": (data.replace(b'"temperature": 0', b'"temperature":-1'), 400),
        "top_p 2": (data.replace(b"{", b'{"top_p":2,', 1), 400),
        "n 1000": (data.replace(b"{", b'{"n":1000,', 1), 400),
        "max_tokens text": (data.replace(b'"max_tokens": 4', b'"max_tokens":"4"'), 400),
        "max_tokens -1, stop at once": (
            data.replace(b'"max_tokens": 4', b'"max_tokens":-1,"stop":["e","a","o","i"," "]'),
            200,
        ),
        "null fields": (
            data.replace(b"{", b'{"top_p":null,"stop":null,"n":null,"seed":null,', 1),
            200,
        ),
        "unknown field": (data.replace(b"{", b'{"no_such_thing":[1],', 1), 200),
        "bad role": (data.replace(b'"user"', b'"king"'), 400),
        "no messages": (b"{}", 400),
        "empty messages": (b'{"messages":[]}', 400),
        "tools": (
            data.replace(b"{", b'{"tools":[{"type":"function","function":{"name":"f"}}],', 1),
            400,
        ),
        "json format": (
            data.replace(b"{", b'{"response_format":{"type":"json_object"},', 1),
            400,
        ),
        "lone top_logprobs": (data.replace(b"{", b'{"top_logprobs":2,', 1), 400),
        "bias out of range": (data.replace(b"{", b'{"logit_bias":{"99999999":1},', 1), 400),
    }
    for name, (text, expected) in wrong.items():
        status, _, body = s.request("POST", url, text, timeout=120)
        good = status == expected and (status == 200 or "message" in json.loads(body)["error"])
        case(f"body: {name}", good, f"{status} {body[:200]}")
    for name, change, param, words in (
        ("bias", {"logit_bias": {"5": 1e300}}, "logit_bias", ("token 5", "1e+300")),
        ("top_logprobs", {"logprobs": True, "top_logprobs": 21}, "top_logprobs", ("20", "21")),
        ("logprobs", {"logprobs": 5}, "logprobs", ("true or false",)),
        (
            "text part without text",
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages",
            ("content[0].text", "string"),
        ),
    ):
        status, body = s.json("POST", url, dict(CHAT, **change))
        case(
            f"error names the field: {name}",
            status == 400
            and body["error"]["param"] == param
            and all(word in body["error"]["message"] for word in words),
            body,
        )
    status, body = s.json("POST", url, dict(CHAT, top_p=1.1))
    message = body["error"]["message"]
    case("numbers as Python prints them", message == "top_p: expected 0 to 1, found 1.1", body)
    status, _, body = s.request("POST", url, b"")
    message = json.loads(body)["error"]["message"]
    case("an empty body is called so", status == 400 and "body is empty" in message, body)
    for name, value in (("echo", 5), ("best_of", 0), ("logprobs", 99)):
        status, body = s.json("POST", "/v1/completions", {"prompt": "a", name: value})
        good = status == 400 and body["error"]["param"] == name
        case(f"completions: the error names the field: {name}", good, body)
    status, body = s.json(
        "POST", url, dict(CHAT, messages=[{"role": "user", "content": "word " * 40000}])
    )
    case(
        "prompt too long",
        status == 400
        and body["error"]["code"] == "context_length_exceeded"
        and "prompt is too long" in body["error"]["message"],
        body,
    )


def active(s):
    return s.json("GET", "/health")[1]["active_requests"]


def disconnects(s):
    for name, ending in (
        ("close", lambda c: c.close()),
        (
            "reset",
            lambda c: (
                c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"),
                c.close(),
            ),
        ),
        ("half-close", lambda c: c.shutdown(socket.SHUT_WR)),
    ):
        c = s.connect()
        c.sendall(post(LONG))
        c.recv(4096)
        case(f"{name}: runs before", wait_until(lambda: active(s) == 1, PATIENCE) is not None)
        ending(c)
        took = wait_until(lambda: active(s) == 0, 5)
        case(f"{name} ends the work", took is not None and took < 0.5, took)
        c.close()
    c = s.connect()
    c.sendall(post(dict(LONG, stream=False)))
    wait_until(lambda: active(s) == 1, PATIENCE)
    c.close()
    took = wait_until(lambda: active(s) == 0, 5)
    case("close of an unstreamed answer", took is not None and took < 0.5, took)


def prompt_disconnects(s):
    """A prompt of 8,000 tokens is given up long before it would have been read."""
    words = " ".join(str(i % 10) for i in range(3900))
    eighth = dict(CHAT, messages=[{"role": "user", "content": words[:975]}], max_tokens=1)
    start = time.monotonic()
    status, body = s.json("POST", "/v1/chat/completions", eighth, timeout=300)
    whole = 8 * (time.monotonic() - start)
    tokens = body.get("usage", {}).get("prompt_tokens", 0)
    case("an eighth of a long prompt", status == 200 and 900 < tokens < 1024, body)
    prompt = dict(CHAT, max_tokens=1)
    endings = {
        "close": lambda c: c.close(),
        "reset": lambda c: (
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"),
            c.close(),
        ),
        "half-close": lambda c: c.shutdown(socket.SHUT_WR),
    }
    for stream in (False, True):
        for name, ending in endings.items():
            c = s.connect()
            c.sendall(
                post(
                    dict(
                        prompt,
                        stream=stream,
                        messages=[{"role": "user", "content": f"{name} {stream} {words}"}],
                    )
                )
            )
            case(
                f"{name} in a prompt: runs before",
                wait_until(lambda: active(s) == 1, PATIENCE) is not None,
            )
            time.sleep(0.15)
            ending(c)
            took = wait_until(lambda: active(s) == 0, whole)
            case(
                f"{name} in a prompt ends the work, stream {stream}",
                took is not None and took < max(0.5, whole / 4),
                (took, whole),
            )
            c.close()


def deaf_client(s):
    c = s.connect()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.sendall(post(LONG))
    time.sleep(1)
    status, _ = s.json("POST", "/v1/chat/completions", CHAT)
    case("a client that does not read holds up nobody", status == 200, status)
    c.close()


def many(s):
    results = []

    def one():
        results.append(s.request("POST", "/v1/chat/completions", CHAT, timeout=120)[0])

    threads = [threading.Thread(target=one) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    case("16 at once", results == [200] * 16, results)


def slow(s):
    for name, data in (
        ("header", b"GET /health HTTP/1.1\r\nHost: "),
        (
            "body",
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 100\r\n\r\n{",
        ),
    ):
        start = time.monotonic()
        with s.connect(15) as c:
            c.sendall(data)
            closed = False
            while time.monotonic() - start < 12 and not closed:
                try:
                    c.settimeout(0.4)
                    closed = c.recv(1000) == b""
                except socket.timeout:
                    try:
                        c.sendall(b"x")
                    except OSError:
                        closed = True
                except OSError:
                    closed = True
        case(
            f"slow {name} is closed",
            closed and time.monotonic() - start < 6,
            time.monotonic() - start,
        )


def crowd(s):
    held = [s.connect() for _ in range(8)]
    time.sleep(0.3)
    status, _, body = s.request("GET", "/health", timeout=5)
    case("too many connections", status == 503, body)
    for c in held:
        c.close()
    case("and again", wait_until(lambda: s.request("GET", "/health")[0] == 200, 5) is not None)


def keys(s):
    case("no key", s.request("GET", "/v1/models")[0] == 401)
    case("wrong key", s.request("GET", "/v1/models", headers={"x-api-key": "k"})[0] == 401)
    for name, value in (
        ("Authorization", "Bearer k1"),
        ("authorization", "bearer k2"),
        ("x-api-key", "k1"),
    ):
        case(f"key in {name}", s.request("GET", "/v1/models", headers={name: value})[0] == 200)
    status, body = s.json("GET", "/health")
    case(
        "health needs no key and then says little",
        status == 200 and body == {"status": "ok"},
        body,
    )
    status, headers, _ = s.request("GET", "/health", headers={"Origin": "http://a.example"})
    case(
        "allowed origin",
        headers.get("access-control-allow-origin") == "http://a.example",
        headers,
    )
    status, headers, _ = s.request("GET", "/health", headers={"Origin": "http://b.example"})
    case("other origin", "access-control-allow-origin" not in headers, headers)
    answer = s.raw(b"GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    case("foreign Host on loopback", parse(answer)[0] == 403, answer)
    status, body = s.json(
        "POST", "/v1/chat/completions", dict(CHAT, model="other"), {"x-api-key": "k1"}
    )
    case("strict model", status == 404 and body["error"]["code"] == "model_not_found", body)
    status, body = s.json(
        "POST", "/v1/chat/completions", dict(CHAT, model="second"), {"x-api-key": "k1"}
    )
    case("alias", status == 200 and body["model"] == "first", body)


def variables(s):
    url = "/v1/chat/completions"
    usage = s.json("POST", url, CHAT)[1]["usage"]
    case("the server's template variables count", usage["prompt_tokens"] == 3, usage)
    own = dict(CHAT, chat_template_kwargs={"tag": "one two three four"})
    usage = s.json("POST", url, own)[1]["usage"]
    case("the client's go over them", usage["prompt_tokens"] == 4, usage)


def drain():
    with Server(MODEL, "--drain-timeout", "20") as s:
        c = s.connect(30)
        c.sendall(post(dict(LONG, max_tokens=60)))
        c.recv(200)
        s.process.send_signal(signal.SIGTERM)
        rest = read_all(c, 30)
        case("SIGTERM lets a stream finish", b"[DONE]" in rest, rest[-200:])
        case("SIGTERM ends with status 0", s.process.wait(20) == 0, s.log_lines[-3:])
        s.stop()
        case("a log row a request", any(" chat " in line for line in s.log_lines), s.log_lines)


def streams(s):
    status, headers, body = s.request(
        "POST",
        "/v1/chat/completions",
        dict(CHAT, stream=True, stream_options={"include_usage": True}),
    )
    frames = events(body)
    first, last = json.loads(frames[0]), json.loads(frames[-2])
    case("stream headers", headers["content-type"].startswith("text/event-stream"), headers)
    case(
        "stream order",
        first["choices"][0]["delta"]["role"] == "assistant"
        and last["choices"] == []
        and last["usage"]["completion_tokens"] >= 1
        and frames[-1] == "[DONE]",
        frames,
    )
    text = "".join(
        json.loads(f)["choices"][0]["delta"].get("content", "") for f in frames[1:-2]
    )
    status, whole = s.json("POST", "/v1/chat/completions", CHAT)
    case(
        "stream equals whole", text == whole["choices"][0]["message"]["content"], (text, whole)
    )


with Server(MODEL, "--context", "2048") as server:
    for function in (routes, framing, bodies, streams, disconnects, deaf_client, many):
        cases.run(function.__name__, lambda: function(server))
    case("still alive", server.process.poll() is None)
    case("ends with status 0", server.stop() == 0, server.log_lines[-3:])
with Server(MODEL, "--body-timeout", "2", "--max-connections", "7") as server:
    for function in (slow, crowd):
        cases.run(function.__name__, lambda: function(server))
with Server(
    MODEL,
    "--api-key",
    "k1",
    "--api-key",
    "k2",
    "--cors-origin",
    "http://a.example",
    "--strict-model",
    "--model-name",
    "first,second",
) as server:
    cases.run("keys", lambda: keys(server))
with Server(
    MODEL, "--chat-template", "{{ tag }}", "--chat-template-kwargs", '{"tag": "one two three"}'
) as server:
    cases.run("variables", lambda: variables(server))
with Server(MODEL, "--context", "8192", "--no-warmup") as server:
    cases.run("prompt disconnects", lambda: prompt_disconnects(server))
cases.run("drain", drain)
sys.exit(1 if cases.failed else 0)
