#!/usr/bin/env python3
"""Takes from a folder of full fixtures (golden.json, every logit row) what the tests compare: of
each case the first, the last and every 16th row. usage: compact.py FIXTURES NAME[:hf,gguf]..."""
import json, os, shutil, sys

source, here = sys.argv[1], os.path.dirname(os.path.abspath(__file__))
for item in sys.argv[2:]:
    name, _, forms = item.partition(":")
    target = os.path.join(here, name)
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(target)
    for form in (forms or "hf").split(","):
        if form == "hf":
            os.makedirs(os.path.join(target, "hf"))
            for f in os.listdir(os.path.join(source, name, "hf")):
                if not f.startswith("tokenizer"):
                    shutil.copy(os.path.join(source, name, "hf", f), os.path.join(target, "hf"))
        else:
            shutil.copy(os.path.join(source, name, "model.gguf"), target)
    golden = json.load(open(os.path.join(source, name, "golden.json")))
    cases = []
    for case in golden["cases"]:
        n, vocab = case["shape"]
        rows = sorted({0, n - 1, *range(0, n, 16)})
        data = open(os.path.join(source, name, case["logits"]), "rb").read()
        with open(os.path.join(target, case["logits"]), "wb") as out:
            for row in rows:
                out.write(data[row * vocab * 4:(row + 1) * vocab * 4])
        kept = {k: case[k] for k in ("name", "tokens", "logits", "greedy") if k in case}
        cases.append(kept | {"rows": rows})
    with open(os.path.join(target, "golden.json"), "w") as out:
        json.dump({"source": golden["source"], "cases": cases}, out)
