"""What the check of a checkpoint found, as text and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

ERROR, WARNING = "error", "warning"
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
_GIB, _KIB = 1 << 30, 1 << 10


@dataclass(frozen=True)
class CheckpointFinding:
    """Something that an operator or an engine refuses.

    Attributes:
        level: ``error`` or ``warning``.
        layer: The module; empty for the whole checkpoint.
        scheme: Its scheme; empty where it has none.
        rule: The rule that is broken, in the operator's own words.
        fix: What helps; empty where nothing is known.
    """

    level: str
    layer: str
    scheme: str
    rule: str
    fix: str = ""


@dataclass
class CheckpointReport:
    """The result of `check_checkpoint`.

    Attributes:
        title: The model, its dtype and format.
        chip: The chip that it was checked for.
        cards: The number of cards that share each layer.
        schemes: How many linears each scheme has.
        findings: What is refused.
        weight_bytes: The weights on a card.
        cache_bytes: The cache for a token on a card; None where the configuration does not tell.
        buffer_mib: The least HCCL_BUFFSIZE; None for a dense model.
        tokens: The tokens of a rank that ``buffer_mib`` is for.
    """

    title: str
    chip: str
    cards: int
    schemes: dict[str, int] = field(default_factory=dict)
    findings: list[CheckpointFinding] = field(default_factory=list)
    weight_bytes: int = 0
    cache_bytes: int | None = None
    buffer_mib: int | None = None
    tokens: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is refused; warnings may remain."""
        return not any(finding.level == ERROR for finding in self.findings)

    def lines(self) -> Iterator[str]:
        """The report as lines of text; equal findings of several layers are one.

        Yields:
            The lines.
        """
        counts = ", ".join(f"{count} {scheme}" for scheme, count in sorted(self.schemes.items()))
        yield f"{self.title}; {counts or 'no quantised linear'}"
        yield f"{self.chip}, {self.cards} card{'s' if self.cards > 1 else ''}"
        yield ""
        for finding, layers in self._grouped():
            name = _NUMBER.sub("*", finding.layer) if len(layers) > 1 else finding.layer
            count = f"{len(layers)} layers" if len(layers) > 1 else ""
            about = ", ".join(filter(None, (count, finding.scheme)))
            yield f"{finding.level}: {name or 'checkpoint'}{f' ({about})' if about else ''}"
            yield f"  {finding.rule}"
            if finding.fix:
                yield f"  fix: {finding.fix}"
        if self.findings:
            yield ""
        cache = "" if self.cache_bytes is None else f", cache {self.cache_bytes / _KIB:.4g} KiB for each token"
        yield f"memory of a card: weights {self.weight_bytes / _GIB:.2f} GiB{cache}"
        if self.buffer_mib is not None:
            yield f"HCCL_BUFFSIZE: at least {self.buffer_mib} for dispatch and combine of {self.tokens} tokens a rank"
        yield f"{self._count(ERROR)}, {self._count(WARNING)}"

    def _count(self, level: str) -> str:
        count = sum(finding.level == level for finding in self.findings)
        return f"{count} {level}{'' if count == 1 else 's'}"

    def _grouped(self) -> Iterator[tuple[CheckpointFinding, list[str]]]:
        groups: dict[tuple[str, ...], list[CheckpointFinding]] = {}
        for finding in self.findings:
            key = (finding.level, _NUMBER.sub("*", finding.layer), finding.scheme, _NUMBER.sub("*", finding.rule))
            groups.setdefault(key, []).append(finding)
        for _, findings in sorted(groups.items(), key=lambda item: item[0][0]):
            yield findings[0], [finding.layer for finding in findings]

    def to_json(self) -> str:
        """The report as JSON.

        Returns:
            The text.
        """
        return json.dumps({"ok": self.ok, **asdict(self)}, indent=1) + "\n"
