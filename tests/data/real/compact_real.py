#!/usr/bin/env python3
"""Cuts the recorded runs of real models down to what tests/real compares.

usage: compact.py FOLDER    (reads FOLDER/NAME.json, writes NAME.json beside this script)
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for name in ("smollm2", "gemma3-270m"):
    with open(os.path.join(sys.argv[1], name + ".json"), encoding="utf-8") as f:
        full = json.load(f)
    cases = []
    for case in full["cases"]:
        cut = {k: case[k] for k in ("name", "n_predict", "messages", "prompt", "prompt_ids")
               if k in case}
        for run in ("quantized", "f32"):
            cut[run] = {"ids": case[run]["ids"], "margins": case[run]["margins"]}
        if "messages" in cut:
            del cut["prompt"]
        cases.append(cut)
    with open(os.path.join(HERE, name + ".json"), "w", encoding="utf-8") as f:
        json.dump({"sha256": full["sha256"], "source": full["source"], "cases": cases}, f,
                  ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
