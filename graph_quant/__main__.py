"""Lets `python -m graph_quant` be the graph-quant command."""

from .cli import main

raise SystemExit(main())
