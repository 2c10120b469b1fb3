"""ingot quantize: importances move the error to where it weighs least; wrong ones are refused."""
import os
import random
import struct
import tempfile

from cases import case, finish, run

ROWS, COLUMNS = 16, 256
NAME = "blk.0.ffn_down.weight"
TINY = os.path.join(os.path.dirname(__file__), "..", "data", "golden", "llama-base", "model.gguf")


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def write_gguf(path, values):
    pairs = text("general.architecture") + struct.pack("<I", 8) + text("nobody-knows")
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + pairs
    head += text(NAME) + struct.pack("<IQQIQ", 2, COLUMNS, ROWS, 0, 0)
    head += b"\0" * (-len(head) % 32)
    with open(path, "wb") as f:
        f.write(head + struct.pack(f"<{len(values)}f", *values))


def read_values(path):
    """The one tensor, F32, which is the end of the file."""
    with open(path, "rb") as f:
        return struct.unpack(f"<{ROWS * COLUMNS}f", f.read()[-4 * ROWS * COLUMNS:])


def write_imatrix(path, values, name=NAME):
    """The older form: entries of (name, calls, sums of squares)."""
    with open(path, "wb") as f:
        f.write(struct.pack("<ii", 1, len(name)) + name.encode())
        f.write(struct.pack(f"<ii{len(values)}f", 1, len(values), *values))


def round_trip(folder, type_name, *flags):
    """(the quantized file, its values)"""
    small, back = os.path.join(folder, "small.gguf"), os.path.join(folder, "back.gguf")
    code, out, err = run("quantize", os.path.join(folder, "in.gguf"), small, "--type", type_name,
                         *flags)
    case(f"{type_name} {' '.join(flags[:1])}".strip(), code == 0 and out == "", err)
    with open(small, "rb") as f:
        content = f.read()
    run("quantize", small, back, "--type", "F32")
    return content, read_values(back)


def test_importance(folder):
    chooser = random.Random(5)
    values = [chooser.gauss(0, 1) for _ in range(ROWS * COLUMNS)]
    weights = [chooser.choice((0.01, 0.1, 1.0, 30.0)) for _ in range(COLUMNS)]
    imatrix = os.path.join(folder, "good.dat")
    write_gguf(os.path.join(folder, "in.gguf"), values)
    write_imatrix(imatrix, weights)

    def weighted_error(found):
        return sum(weights[i % COLUMNS] * (v - w) ** 2
                   for i, (v, w) in enumerate(zip(values, found))) ** 0.5

    for type_name in ("Q4_0", "Q2_K", "Q4_K", "Q6_K"):
        plain, plain_values = round_trip(folder, type_name)
        weighted, weighted_values = round_trip(folder, type_name, "--imatrix", imatrix)
        before, after = weighted_error(plain_values), weighted_error(weighted_values)
        case(f"{type_name}: importances change the weights", plain != weighted and
             len(plain) == len(weighted))
        case(f"{type_name}: the weighted error is smaller", after < 0.97 * before,
             f"{after:.4f} with importances, {before:.4f} without")


def test_refusals(folder):
    source, out_path = os.path.join(folder, "in.gguf"), os.path.join(folder, "never.gguf")
    files = {name: os.path.join(folder, name) for name in
             ("other.dat", "width.dat", "nonsense.dat", "negative.dat", "missing.dat")}
    write_imatrix(files["other.dat"], [1.0] * COLUMNS, "model.layers.0.weight")
    write_imatrix(files["width.dat"], [1.0] * 100)
    write_imatrix(files["negative.dat"], [-1.0] * COLUMNS)
    with open(files["nonsense.dat"], "w") as f:
        f.write("This is a text, not an importance matrix.\n")
    for name, part in (("other.dat", "model.layers.0.weight"), ("width.dat", f"expected {COLUMNS}"),
                       ("nonsense.dat", "importance matrix"), ("negative.dat", NAME),
                       ("missing.dat", "")):
        code, out, err = run("quantize", source, out_path, "--type", "Q4_K", "--imatrix",
                             files[name])
        case("refused: " + name, code == 1 and files[name] in err and part in err and
             err.count("\n") == 1 and not os.path.exists(out_path), err)


def test_own_input(folder):
    """Under the same name or another one, the input is never replaced."""
    source, hard, soft = (os.path.join(folder, name) for name in ("in.gguf", "hard", "soft"))
    os.link(source, hard)
    os.symlink(source, soft)
    with open(source, "rb") as f:
        before = f.read()
    for out_path in (source, hard, soft):
        code, _, err = run("quantize", source, out_path, "--type", "Q8_0")
        with open(source, "rb") as f:
            case("the input stays: " + os.path.basename(out_path), code == 1 and
                 out_path in err and err.count("\n") == 1 and f.read() == before, err)


def test_notes():
    """Most tensors here have rows too short for Q4_K: told in one line, by name if asked."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ("quantize", TINY, os.path.join(folder, "q.gguf"), "--type", "Q4_K")
        code, _, err = run(*flags)
        notes = [line for line in err.splitlines() if " tensors are kept" in line]
        case("one line of summary", code == 0 and len(notes) == 1 and err.count("\n") <= 2, err)
        kept = int(notes[0].split()[1] if notes[0].startswith("note:") else notes[0].split()[0])
        case("more than one is meant", kept > 1, notes)
        code, _, err = run(*flags, "--verbose")
        named = [line for line in err.splitlines() if "stays" in line or "becomes" in line]
        case("--verbose names them", code == 0 and len(named) == kept, err)


test_notes()
with tempfile.TemporaryDirectory() as temporary:
    test_importance(temporary)
    test_refusals(temporary)
    test_own_input(temporary)
finish()
