"""What each operator computes, in plain traceable torch, bit for bit as the A2/A3 kernels do.

The functions take arguments that the rules of ``graph_quant.meta`` have accepted. Traced by
``torch.compile`` they are one fusable expression; run eagerly they work through rows in blocks that stay in
cache. Both give the same bits.
"""
