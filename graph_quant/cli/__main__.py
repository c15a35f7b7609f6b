"""Lets `python -m graph_quant.cli` be the graph-quant command."""

from . import main

raise SystemExit(main())
