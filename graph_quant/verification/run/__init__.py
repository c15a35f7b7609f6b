"""Runs functions and graphs, and compares what they compute, on three nested levels.

::

    +- region (region.py): code that Dynamo captured as one graph ---------------+
    |  compared: its results, and the inputs it wrote to, with an eager run      |
    |                                                                            |
    |  +- graph (graph.py): a GE graph that TorchAir compiled for the region -+  |
    |  |  compared: its outputs with those of the FX graph it came from       |  |
    |  |                                                                      |  |
    |  |  +- node (nodes.py): one FX node and the GE nodes lowered from it -+ |  |
    |  |  |  compared: each result with the operator computed on the CPU    | |  |
    |  |  +-----------------------------------------------------------------+ |  |
    |  +----------------------------------------------------------------------+  |
    +----------------------------------------------------------------------------+

A region may have no GE graph: it runs eagerly, or is captured. A backward graph runs outside of any region.
``api`` verifies a function, ``script`` a script; both use ``interception``, which patches the compilers so that regions
and graphs are wrapped. ``intermediates`` gets the results of nodes out of a running graph.
"""
