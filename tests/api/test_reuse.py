#!/usr/bin/env python3
"""Turns of a conversation: what earlier ones left is taken over, and changes no answer."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import Cases, Server, cache_source, real_model, told  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("turns of a conversation")
FIRST = [{"role": "user", "content": "Name three animals that live in the sea, one a line."}]
NEXT = {"role": "user", "content": "Now three that live in the desert."}


def post(server, messages, **more):
    body = {
        "messages": messages,
        "max_tokens": 16,
        "temperature": 0,
        "ignore_eos": True,
        **more,
    }
    return server.json("POST", "/v1/chat/completions", body)


def ask(server, messages, **more):
    """(text, cached tokens, prompt tokens)"""
    return told(post(server, messages, **more))


def sources():
    with Server(MODEL, "--context", "1024") as server:
        first = post(server, FIRST)
        case("nothing reused has no source", cache_source(first) is None, first)
        again = post(server, FIRST)
        case("kept pages are named", cache_source(again) == "pages", again)
        both = post(server, FIRST, n=2, cache_prompt=False)
        case("a fork is no reuse of its prompt", cache_source(both) is None, both)


def turns():
    with Server(MODEL, "--context", "1024", "--exact") as server:
        text, cached, n_first = ask(server, FIRST)
        case("nothing is known of the first turn", cached == 0, cached)
        messages = FIRST + [{"role": "assistant", "content": text}, NEXT]
        with_reuse, cached, n = ask(server, messages)
        case("second turn takes the first over", n_first <= cached < n, (n_first, cached, n))
        again, cached, n = ask(server, messages)
        case("the same again is all known", cached == n - 1, (cached, n))
        whole, cached, n = ask(server, messages, cache_prompt=False)
        case("cache_prompt false takes nothing over", cached == 0, (cached, n))
        case("and changes no answer", whole == with_reuse, (whole, with_reuse))
        case("the same again, the same answer", again == with_reuse, (again, with_reuse))
    with Server(MODEL, "--context", "1024", "--exact", "--no-cache-prompt") as server:
        ask(server, messages)
        plain, cached, _ = ask(server, messages)
        case("--no-cache-prompt takes nothing over", cached == 0, cached)
        case(
            "the answer of a server that reuses nothing",
            plain == with_reuse,
            (plain, with_reuse),
        )
    # Nobody asked this server before, and it copies nothing to host memory.
    with Server(MODEL, "--context", "1024", "--exact", "--cache", "off") as server:
        plain, cached, _ = ask(server, messages)
        case("a new server knows nothing", cached == 0, cached)
        case("the answer without reuse", plain == with_reuse, (plain, with_reuse))


cases.run("sources", sources)
cases.run("turns", turns)
sys.exit(1 if cases.failed else 0)
