"""Every message on the troubleshooting page is one that the code can raise."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADINGS = re.findall(r"^### `(.+)`$", (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE)
# Raised by the dynamic loader and by torch_npu.
OF_OTHERS = ("libascendcl.so: cannot open shared object file", "torch.OutOfMemoryError: NPU out of memory")
# Python's f-strings and adjacent string literals are joined, so that a message can be found as it is printed.
JOINT = re.compile(r'"\s*\n\s*f?"')


@pytest.fixture(scope="module")
def sources() -> str:
    paths = [path for name in ("graph_quant", "meta", "converters") for path in (ROOT / name).rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in (*paths, ROOT / "setup.py")]
    return JOINT.sub("", "\n".join(texts))


@pytest.mark.parametrize("heading", [heading for heading in HEADINGS if heading not in OF_OTHERS])
def test_the_code_has_the_message(heading: str, sources: str) -> None:
    parts = [re.escape(part.strip()) for part in re.split(r"…|GRAPH_QUANT_\w+|eager, inductor|64$", heading)]
    assert re.search(r".*?".join(part for part in parts if part), sources), "no source has this message"
