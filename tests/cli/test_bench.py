"""ingot bench: results in the agreed form, shapes with random weights, refusals."""
import glob
import json
import os
import tempfile

from cases import case, finish, run

SHAPE = "smollm2-135m-L2:Q4_0"
FIELDS = ["test", "n_prompt", "n_gen", "n_depth", "n_streams", "threads", "device", "avg_ts",
          "best_ts", "stddev_ts"]


def test_results(folder):
    path = os.path.join(folder, "shape.gguf")
    code, out, err = run("bench", "--shape", SHAPE, "--write", path, "-p", "16,32", "-n", "4",
                         "-d", "0,128", "-s", "1,2", "-t", "1", "-r", "2", "--json")
    rows = json.loads(out) if code == 0 else []
    case("--json", code == 0 and all(sorted(r) == sorted(FIELDS) for r in rows), err or out)
    case("every combination", [r["test"] for r in rows] ==
         ["pp16", "pp32", "tg4", "tg4 x 2", "pp16 @ d128", "pp32 @ d128", "tg4 @ d128",
          "tg4 @ d128 x 2"], rows)
    case("rates make sense", all(0 < r["avg_ts"] <= r["best_ts"] and r["stddev_ts"] >= 0 and
                                 r["threads"] == 1 and r["device"] == "cpu" for r in rows), rows)
    code, out, err = run("inspect", path, "--json", "--check")
    report = json.loads(out) if code == 0 else {}
    case("--write keeps a good model", code == 0 and report["family"] == "llama" and
         report["geometry"]["layers"] == 2 and report["types"]["Q4_0"]["tensors"] == 15, err or out)
    code, out, err = run("bench", path, "-p", "8", "-n", "0", "-t", "1", "-r", "1")
    case("a model, as a table", code == 0 and "tokens/s" in out and "pp8 " in out and
         "tg" not in out, out + err)
    code, out, err = run("bench", path, "-p", "8", "-n", "0", "-d", "5", "-t", "1", "-r", "1")
    case("a depth that no pass ends at", (code == 0 and "pp8 @ d5" in out) or
         (code == 1 and "noise" in err), out + err)


def test_shapes(folder):
    env = {"TMPDIR": folder}
    for shape in ("qwen3-0.6b-L1:Q4_K_M", "smollm2-135m-L1:Q4_K_M"):
        code, out, err = run("bench", "--shape", shape, "-p", "4", "-n", "0", "-r", "1", env=env)
        case("shape " + shape, code == 0 and "pp4" in out, out + err)
    case("nothing is left behind", glob.glob(folder + "/ingot-bench*") == [])
    for shape, part in (("qwen3.5-35b-a3b:Q4_K_M", "qwen3.5-35b-a3b"), ("nothing:Q4_0", "no shape"),
                        ("smollm2-135m:Q9", "cannot write type Q9"), ("smollm2-135m", "NAME:QUANT"),
                        ("smollm2-135m-L99:Q4_0", "1 to 30 layers, found 99"),
                        ("smollm2-135m-L0:Q4_0", "1 to 30 layers, found 0")):
        code, out, err = run("bench", "--shape", shape)
        case("refused: " + shape, code == 1 and part in err and err.count("\n") == 1, err)


def test_usage():
    for arguments, part in ((["x.gguf", "-p", "a"], "--n-prompt"),
                            (["x.gguf", "-t", "0"], "--threads"),
                            (["x.gguf", "--write", "y"], "--shape"),
                            (["x.gguf", "--shape", SHAPE], "found both")):
        code, out, err = run("bench", *arguments)
        case("usage: " + " ".join(arguments), code == 2 and part in err, err)
    code, out, err = run("bench", "--peak", "-t", "1", "--json")
    rows = json.loads(out) if code == 0 else []
    case("--peak", code == 0 and len(rows) == 1 and rows[0]["test"] == "peak" and
         (rows[0]["isa"] == "none" or min(rows[0][k] for k in
                                          ("read_gb_s", "f32_gflop_s", "int8_gop_s")) > 0.1),
         err or out)


def test_compare(folder):
    def write(name, value):
        path = os.path.join(folder, name)
        with open(path, "w") as f:
            json.dump(value, f)
        return path

    def row(test, threads, average, best):
        return dict(test=test, threads=threads, avg_ts=average, best_ts=best)

    a = write("a.json", [row("pp512", 1, 100, 110), row("tg128", 1, 10, 12), row("tg128", 2, 9, 9),
                         {"test": "peak", "threads": 1, "read_gb_s": 9.0}])
    b = write("b.json", [row("tg128", 1, 15, 15), row("pp512", 1, 50, 55), row("pp64", 1, 9, 9)])
    code, out, err = run("bench", "compare", a, b, "--json")
    case("compare", code == 0 and json.loads(out) == [
        {"test": "pp512", "threads": 1, "a_ts": 100, "b_ts": 50, "ratio": 0.5, "best_ratio": 0.5},
        {"test": "tg128", "threads": 1, "a_ts": 10, "b_ts": 15, "ratio": 1.5, "best_ratio": 1.25}],
         out + err)
    case("compare tells what it cannot pair", "tg128, 2 threads: only in " + a in err and
         "pp64, 1 threads: only in " + b in err and "peak" not in err, err)
    code, out, err = run("bench", "compare", a, b)
    case("compare as a table", code == 0 and "1.500" in out and "B/A" in out, out + err)
    for name, value, part in (("c.json", {"x": 1}, "c.json"), ("d.json", [row("tg1", 1, 1, 1)],
                                                               "no test with the same name")):
        code, out, err = run("bench", "compare", a, write(name, value))
        case("compare refuses " + name, code == 1 and part in err and out == "", err)
    code, out, err = run("bench", "compare", a)
    case("compare takes two files", code == 2 and "two files" in err, err)
    code, out, err = run("bench", a, b)
    case("two models", code == 2 and b in err, err)


with tempfile.TemporaryDirectory() as temporary:
    test_compare(temporary)
    test_results(temporary)
    test_shapes(temporary)
test_usage()
finish()
