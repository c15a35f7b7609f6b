"""Stand-ins for compiled extensions of other projects, which cannot be built without CANN.

Each package here answers for one of them and is declared as an entry point, as anyone's would be
(``examples/custom_extension``). It holds the schemas of the extension's operators as data, and records for those with
a reference. Where the operator is torch_npu's under another name, its rules and reference are used.
"""
