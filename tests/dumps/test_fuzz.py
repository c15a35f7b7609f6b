"""Mutated dumps: whatever is in a file, the commands answer with an exit code and at most one line.

A sample runs with the other tests. ``GRAPH_QUANT_FUZZ_FILES=10000 pytest tests/dumps/test_fuzz.py`` runs a longer hunt.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from pathlib import Path

from graph_quant import dumps
from graph_quant.dumps import to_ge_onnx
from graph_quant.ge.protobuf import schema

DATA = Path(__file__).parent / "data"
FILES = int(os.environ.get("GRAPH_QUANT_FUZZ_FILES", "150"))
SEEDS = ("upstream_group_quant_int4.txt", "upstream_group_quant_int4.pbtxt", "upstream_group_quant_int4_py.txt",
         "upstream_group_quant_default.txt", "upstream_quant_matmul_bad_scale.txt")  # fmt: skip
HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07", "<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "../../etc/passwd",
    "%s%n{0}{x.__class__}", "\u202egnp.exe", "'; DROP TABLE nodes; --", "\\x00\\377", "__import__('os').system('true')",
    "9" * 400, "-9223372036854775809", "nan", "[[[[", "}}}}", "{" * 50, '"', "'", "\n", ":0", ":-1", "^", "\udcff",
)  # fmt: skip
GE_SEEDS = ("small_ge_proto.txt", "small_ge_readable.txt", "small_fx.txt", "ge_onnx", "air")
COMMANDS = (
    ("inspect",), ("inspect", "--format", "json"), ("inspect", "--format", "html"), ("inspect", "--format", "dot"),
    ("inspect", "--format", "onnx"), ("inspect", "--costs", "--no-fold", "--size", "s77=3"), ("lint",), ("diff",),
    ("replay",),
)  # fmt: skip


def mutate(text: str, chance: random.Random) -> bytes:
    """A damaged copy: cut, spliced, with words swapped or made hostile, or with bytes flipped."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at, end = sorted(chance.choices(range(len(text) + 1), k=2))
        words = [matches.span() for matches in re.finditer(r"[\w.]+|-?\d+", text)] or [(0, 0)]
        first, second = chance.choice(words), chance.choice(words)
        kind = chance.randrange(9)
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + text[min(at + chance.randrange(200), len(text)) :]
        elif kind == 2:
            text = text[:end] + text[at : min(end, at + 2000)] + text[end:]
        elif kind == 3:
            text = text[: first[0]] + chance.choice(HOSTILE) + text[first[1] :]
        elif kind in (4, 5):
            text = text[: first[0]] + text[slice(*second)] + text[first[1] :]
        elif kind == 6:
            number = str(chance.choice((0, 1, -1, -2, 7, 29, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 64)))
            digits = [matches.span() for matches in re.finditer(r"-?\b\d+\b", text)] or [(0, 0)]
            position = chance.choice(digits)
            text = text[: position[0]] + number + text[position[1] :]
        elif kind == 7:
            lines = text.split("\n")
            start = chance.randrange(len(lines))
            moved = lines[start : start + chance.randrange(2, 40)]
            chance.shuffle(moved)
            lines[start : start + len(moved)] = moved
            text = "\n".join(lines[::-1] if chance.random() < 0.1 else lines)
        else:
            text = text[:at] + chance.choice(HOSTILE) + text[at:]
    raw = bytearray(text.encode("utf-8", "surrogateescape"))
    if raw and chance.random() < 0.15:
        for _ in range(chance.randrange(1, 6)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
    return bytes(raw)


def test_mutated_dumps_end_in_an_exit_code_and_one_line(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {name: (DATA / name).read_text() for name in SEEDS}
    chance = random.Random(20240607)
    outcomes: Counter[tuple[str, int]] = Counter()
    for number in range(FILES):
        name = SEEDS[number % len(SEEDS)]
        path = tmp_path / f"mutated{Path(name).suffix}"
        path.write_bytes(mutate(texts[name], chance))
        chosen = COMMANDS[number % len(COMMANDS)]
        arguments = [*chosen, path, *([DATA / name] if chosen == ("diff",) else [])]
        code, out, error = command(
            *arguments, *(() if chosen == ("diff",) and number % 2 else ("-o", tmp_path / "out"))
        )
        outcomes[chosen[0], code] += 1
        assert code in (0, 1, 2), (number, code)
        if code == 2:
            assert error.startswith("graph-quant: "), (number, error)
            assert error.count("\n") == 1, (number, error)
        assert (out + error).replace("\n", "").isprintable(), (number, out, error)
        assert {entry.name for entry in tmp_path.iterdir()} <= {
            path.name,
            "out",
            "mutated.txt",
            "mutated.pbtxt",
            "mutated.py",
        }
    assert {code for _, code in outcomes} >= {0, 2}, outcomes
    print(f"{FILES} files: {dict(sorted(outcomes.items()))}")


GE_COMMANDS = (
    ("inspect",), ("inspect", "--format", "json"), ("inspect", "--format", "html"), ("inspect", "--format", "dot"),
    ("inspect", "--format", "onnx"), ("inspect", "--format", "ge_proto"), ("inspect", "--format", "ge_onnx"),
    ("inspect", "--format", "ge_readable"), ("inspect", "--tree"), ("inspect", "--chip", "Ascend910B3"), ("lint",),
    ("diff",),
)  # fmt: skip


def ge_seeds() -> dict[str, str]:
    """The text of every format; of the one in bytes, each byte as the character of its number."""
    texts = {name: (DATA / name).read_text() for name in GE_SEEDS if (DATA / name).exists()}
    dump = dumps.load(DATA / "small_ge_proto.txt")
    model = schema().ModelDef()
    for graph in dump.graphs():
        model.graph.add().CopyFrom(graph.graph_def)
    return texts | {"ge_onnx": to_ge_onnx(dump), "air": model.SerializeToString().decode("latin-1")}


def test_mutated_dumps_of_ge_end_in_an_exit_code_and_one_line(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = ge_seeds()
    chance = random.Random(20240607)
    outcomes: Counter[tuple[str, int]] = Counter()
    for number in range(FILES // 2):
        name = GE_SEEDS[number % len(GE_SEEDS)]
        content = mutate(texts[name], chance)
        if name == "air":
            content = content.decode("utf-8", "replace").encode("latin-1", "replace")
        path = tmp_path / "mutated"
        path.write_bytes(content)
        chosen = GE_COMMANDS[number % len(GE_COMMANDS)]
        other = [DATA / "small_ge_proto.txt"] if chosen == ("diff",) else []
        code, out, error = command(*chosen, path, *other, "-o", tmp_path / "out")
        outcomes[name, code] += 1
        assert code in (0, 1, 2), (number, code)
        if code == 2:
            assert error.startswith("graph-quant: "), (number, error)
            assert error.count("\n") == 1, (number, error)
        assert (out + error).replace("\n", "").isprintable(), (number, out, error)
    assert {code for _, code in outcomes} >= {0, 2}, outcomes
    print(f"{FILES // 2} files: {dict(sorted(outcomes.items()))}")
