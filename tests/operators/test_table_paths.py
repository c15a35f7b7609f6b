"""The path of a table of calls, given to pytest, stands for the tests of its operators."""

import subprocess
import sys
from pathlib import Path

TABLES = Path(__file__).parent


def collected(table: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "--collect-only", "-qq", table]
    return subprocess.run(command, cwd=TABLES, capture_output=True, text=True, timeout=300)


def test_the_path_of_a_table_collects_the_tests_of_its_operators() -> None:
    result = collected("quant/dynamic_quant.py")
    assert result.returncode == 0, result.stdout
    assert "converters/test_golden.py" in result.stdout
    assert "operators/test_opcheck.py" in result.stdout
    assert "operators/quant/test_dynamic_quant.py" in result.stdout
