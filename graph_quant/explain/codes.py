"""Error codes of CANN: of aclnn, of the runtime, and of its error reports."""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path

_RUNTIME = "acl/error_codes/rt_error_codes.h"
_DEFINITION = re.compile(r"(?:#define\s+)?(ACL_ERROR_RT_\w+)\s*=?\s*(\d{6});?\s*(?://\s*(.*))?")
# aclnn's own, and those of error reports: what they mean, and what to do.
_ACLNN = {
    "161001": ("ACLNN_ERR_PARAM_NULLPTR", "a required argument is missing", "pass the tensor that the text names"),
    "161002": (
        "ACLNN_ERR_PARAM_INVALID",
        "an argument breaks a rule of the operator: a dtype, format, shape or value",
        "compare the call with the rules below; the host refuses it by the same rules",
    ),
    "361001": ("ACLNN_ERR_RUNTIME_ERROR", "a call of the runtime failed", "look for a code of the runtime in the log"),
    "561000": ("ACLNN_ERR_INNER", "an error inside of aclnn", "look for the first line of level ERROR in the log"),
    "561001": ("ACLNN_ERR_INNER_INFERSHAPE_ERROR", "no shape follows from the arguments", "check the shapes"),
    "561002": (
        "ACLNN_ERR_INNER_TILING_ERROR",
        "the tiling of the operator refuses the call: sizes, formats or attributes that the kernel cannot divide",
        "compare the call with the rules below; tilings state limits that no document has",
    ),
    "561003": (
        "ACLNN_ERR_INNER_FIND_KERNEL_ERROR",
        "no binary kernel for these dtypes on this chip",
        "install the kernels package (opp) of this chip and CANN release, or change the dtypes",
    ),
    "561103": ("ACLNN_ERR_INNER_NULLPTR", "an error inside of aclnn", "look for the first line of level ERROR"),
    "561107": ("ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND", "ASCEND_OPP_PATH is not set", "source CANN's set_env.sh"),
    "561112": ("ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND", "no kernels are installed", "install the kernels package"),
    "EZ1001": ("AclNN_Parameter_Error", "an argument breaks a rule of the operator", "as for 161002"),
    "EZ3002": ("AclNN_Inner_Error", "no kernel supports the operator on this chip", "as for 561003"),
    "EZ9999": ("Inner Error", "an error inside of CANN", "look for the first line of level ERROR in the log"),
}
# What to do about codes of the runtime, by the start of the code or the whole of it.
_FIXES = {
    "10702": "A capture cannot record this: join every stream that was forked, and leave out what the text names.",
    "107027": "The stream captures already: end that capture first, or capture on another stream.",
    "107030": "Do not synchronise, allocate by size or copy to the CPU while a stream captures: move it before.",
    "107037": "Wait for the replay before the graph is changed or destroyed.",
    "107038": "End a capture in the thread that began it, or begin it in relaxed mode.",
    "107041": "A copy from pageable memory synchronises: pin the memory, or copy before the capture.",
    "207001": "Use less memory: smaller batches, or fewer captured graphs, which keep their pools.",
    "207005": "Fewer live graphs, streams or processes; `graph-quant plan --capture-sizes N` counts streams.",
    "207008": "Fewer captured graphs: `graph-quant plan --capture-sizes N` says how many streams they need.",
    "207018": "Use less memory: smaller batches, or fewer captured graphs, which keep their pools.",
    "507014": "A kernel ran too long; look for an operator with sizes far beyond its usual ones.",
    "507015": "A kernel read or wrote outside of its tensors: check indices, block tables and lengths on the host.",
    "507018": "A kernel on the CPU of the device failed: check indices, and values outside of a table.",
    "507034": "A kernel ran too long; look for an operator with sizes far beyond its usual ones.",
    "507035": "A kernel read or wrote outside of its tensors: check indices, block tables and lengths on the host.",
    "507046": "The device waits for something that does not come, as a collective that a rank did not join.",
    "507903": "An earlier error ended the capture; the first error of the log is the reason.",
}


def describe_code(code: str) -> tuple[str, str, str] | None:
    """Return the name of an error code, its meaning and what to do; ``None`` for an unknown code."""
    if code in _ACLNN:
        return _ACLNN[code]
    if code not in _runtime_codes() and code not in _FIXES:
        return None
    name, meaning = _runtime_codes().get(code, ("", "an error of the runtime"))
    return name, meaning, _FIXES.get(code) or _FIXES.get(code[:5], "")


@functools.cache
def _runtime_codes() -> dict[str, tuple[str, str]]:
    """Names and meanings from the header that torch_npu brings; none where it is not installed."""
    spec = importlib.util.find_spec("torch_npu")
    if spec is None or spec.origin is None:
        return {}
    header = Path(spec.origin).parent / "include" / _RUNTIME
    if not header.is_file():
        return {}
    matches = _DEFINITION.finditer(header.read_text(errors="replace"))
    return {match[2]: (match[1], (match[3] or "").strip()) for match in matches}
