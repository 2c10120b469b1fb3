"""A copy of a GGUF whose output matrix is a tensor of its own: then the embedding is read from the
mapped file at every token, as in large models."""

import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


def text_end(data, at):
    return at + 8 + struct.unpack_from("<Q", data, at)[0]


def value_end(data, at, kind):
    if kind == STRING:
        return text_end(data, at)
    if kind != ARRAY:
        return at + SIZES[kind]
    of, n = struct.unpack_from("<IQ", data, at)
    at += 12
    if of != STRING:
        return at + n * SIZES[of]
    for _ in range(n):
        at = text_end(data, at)
    return at


def write_untied(source, target, alignment=32):
    """Returns (offset, bytes) of the embedding in the new file; it lies behind all the others."""
    with open(source, "rb") as f:
        data = f.read()
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
    at = 24
    for _ in range(n_keys):
        at = text_end(data, at)
        at = value_end(data, at + 4, struct.unpack_from("<I", data, at)[0])
    infos, end = at, None
    for _ in range(n_tensors):
        begin, at = at, text_end(data, at)
        name = data[begin + 8 : at]
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 12
        offset = struct.unpack_from("<Q", data, at - 8)[0]
        if name == b"token_embd.weight":
            embedding, first = data[begin + 8 + len(name) : at - 8], offset
        elif name == b"output.weight":
            raise ValueError(f"{source} has an output matrix")
    offsets = sorted(all_offsets(data, infos, n_tensors))
    start = -(-at // alignment) * alignment
    following = [o for o in offsets if o > first]
    end = following[0] if following else len(data) - start
    rows, old = data[start + first : start + end], data[start:]
    old += bytes(-len(old) % alignment)
    name = b"output.weight"
    added = struct.pack("<Q", len(name)) + name + embedding + struct.pack("<Q", first)
    moved = rename_offset(data, infos, n_tensors, len(old))
    head = data[:8] + struct.pack("<Q", n_tensors + 1) + data[16:infos] + moved + added
    head += bytes(-len(head) % alignment)
    with open(target, "wb") as f:
        f.write(head + old + rows)
    return len(head) + len(old), len(rows)


def all_offsets(data, at, n):
    for _ in range(n):
        at = text_end(data, at)
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 12
        yield struct.unpack_from("<Q", data, at - 8)[0]


def rename_offset(data, begin, n, offset):
    """The tensor list with the embedding's offset replaced."""
    at, out = begin, b""
    for _ in range(n):
        first, at = at, text_end(data, at)
        name = data[first + 8 : at]
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 12
        if name == b"token_embd.weight":
            out += data[first : at - 8] + struct.pack("<Q", offset)
        else:
            out += data[first:at]
    return out
