"""From the text of an error or a log to the operators, rules and fixes that it is about."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .codes import describe_code
from .messages import MESSAGES

_CODE = re.compile(r"(?<![\w.])([1235]\d{5}|E[A-Z]\d{4})(?![\w.])")
_ACLNN = re.compile(r"aclnn([A-Z]\w*)")
_NPU = re.compile(r"\b((?:npu|_npu)_\w+)")
_SUFFIXES = re.compile(r"(GetWorkspaceSize|WeightN[Zz]|V\d+)$")
_MOST_SENTENCES = 6


@dataclass(frozen=True)
class Explanation:
    """One thing that a text says.

    Attributes:
        subject: An error code, or an operator.
        argument: The argument of the operator that the text is about; "" if it names none.
        rule: What the code means, or the rule of the operator.
        fix: What to do; "" if only the rule is known.
    """

    subject: str
    argument: str
    rule: str
    fix: str = ""

    def __str__(self) -> str:
        subject = f"{self.subject}, {self.argument}" if self.argument else self.subject
        return f"{subject}: {self.rule}" + (f"\n  fix: {self.fix}" if self.fix else "")


def explain(text: str) -> list[Explanation]:
    """Explain the text of an error, or a log of a device.

    Args:
        text: The text; colours and time stamps may stay.

    Returns:
        Rules that the text says are broken, the error codes in it, and the documented rules of the operators that it
        names, in this order. Empty if nothing in the text is known.

    Examples:
        >>> explain("Not supported mat2 n = 1 or k = 1 when format is FRACTAL_NZ")[0].argument
        'mat2'
    """
    known = [
        Explanation(message.operator, message.argument, message.rule, message.fix)
        for message in MESSAGES
        if message.pattern.search(text)
    ]
    codes = dict.fromkeys(_CODE.findall(text))
    return [*known, *_explain_codes(codes), *_explain_operators(text, {entry.subject for entry in known})]


def _explain_codes(codes: dict[str, None]) -> Iterator[Explanation]:
    for code in codes:
        description = describe_code(code)
        if description is not None:
            name, meaning, fix = description
            yield Explanation(f"{code} {name}".strip(), "", meaning, fix)


def _explain_operators(text: str, explained: set[str]) -> Iterator[Explanation]:
    for name in _find_operators(text):
        if name not in explained:
            yield from _explain_operator(name, text)


def _find_operators(text: str) -> list[str]:
    """Return the operators with records that a text names, by their own names or by aclnn's."""
    from graph_quant.meta.operator import RECORDS

    titles = {name.partition("::")[2].partition(".")[0] for name in RECORDS}
    by_letters = {_letters(title): title for title in titles}
    names = dict.fromkeys(match for match in _NPU.findall(text) if match in titles)
    for match in _ACLNN.findall(text):
        while match:
            title = by_letters.get(match.lower())
            if title is not None:
                names[title] = None
                break
            shorter = _SUFFIXES.sub("", match)
            match = "" if shorter == match else shorter
    return list(names)


def _letters(title: str) -> str:
    return title.removeprefix("_").removeprefix("npu_").replace("_", "").lower()


def _explain_operator(title: str, text: str) -> Iterator[Explanation]:
    """Yield the sentences of a record that are about the arguments in the text; all if it names none."""
    from graph_quant.meta.operator import RECORDS

    record = next(RECORDS[name] for name in RECORDS if name.partition("::")[2].partition(".")[0] == title)
    module = inspect.getmodule(record.rules)
    documented = (module.__doc__ or "").partition("\n\n")[2] if module is not None else ""
    sentences = [" ".join(part.split()) for part in re.split(r"(?<=\.)\s+", documented) if part.strip()]
    named = [argument for argument in record.arguments if re.search(rf"\b{_camel_or(argument)}\b", text)]
    about = [
        sentence for sentence in sentences if any(re.search(rf"\b{argument}\b", sentence) for argument in named)
    ] or sentences
    yield Explanation(title, ", ".join(named), " ".join(about[:_MOST_SENTENCES]) or "see the operator's page", "")


def _camel_or(argument: str) -> str:
    """Return a pattern for an argument in torch_npu's spelling or aclnn's."""
    first, *others = argument.split("_")
    camel = first + "".join(part.title() for part in others)
    return rf"(?:{re.escape(argument)}|{re.escape(camel)}(?:Optional)?)"
