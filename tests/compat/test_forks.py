"""Scripts that run in processes forked from one that has loaded vLLM; vLLM itself is not needed."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = """
import json, sys
from compat.engine import fork_server
fork_server._ENDING = 1
print(json.dumps([fork_server._run(**json.loads(line)) for line in sys.stdin]))
"""
SCRIPT = """
import os, sys, time
if __name__ == "__main__":
    print(os.environ["NAME"], os.getcwd(), sys.argv[1])
    match sys.argv[1]:
        case "code": sys.exit(3)
        case "error": raise ValueError("wrong")
        case "slow": time.sleep(60)
        case "orphan":
            if not os.fork(): time.sleep(60)
"""


def test_scripts_end_with_their_codes_and_output(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    requests = [
        {
            "arguments": [str(script), what],
            "folder": str(tmp_path),
            "seconds": 3,
            "environment": {"NAME": f"name of {what}"},
            "printed": str(tmp_path / f"{what}.txt"),
        }
        for what in ("fine", "code", "error", "slow", "orphan")
    ]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=lines, capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert json.loads(done.stdout) == [0, 3, 1, None, 0]
    for request in requests:
        what = request["arguments"][1]
        printed = (tmp_path / f"{what}.txt").read_text()
        assert printed.startswith(f"name of {what} {tmp_path} {what}\n") or what == "slow"
        assert ("ValueError: wrong" in printed) == (what == "error")
