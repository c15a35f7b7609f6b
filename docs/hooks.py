"""MkDocs hooks: pages of files outside docs/, the navigation of operators, and links that leave docs/."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
OPERATORS = ROOT / "docs" / "operators"
FAMILIES = sorted(path.name for path in OPERATORS.iterdir() if path.is_dir())
LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml"}
# By a file's path in the repository: its page on the site.
OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "LICENSE": "license.md"}
OUTSIDE |= {"README.md": "index.md", "examples": "examples/index.md"}

# Pages that are a tab of their own: a column of navigation would hold nothing but their title.
WITHOUT_NAVIGATION = ("index.md", "quickstart.md", "troubleshooting.md")
# Material loads this from the network, for the search of pages that are opened from disk.
REMOTE_SHIM, LOCAL_SHIM = "https://unpkg.com/iframe-worker/shim", "offline-search.js"

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def _examples() -> list[Path]:
    files = [path for path in (ROOT / "examples").rglob("*") if path.suffix in (*LANGUAGES, ".md") and path.is_file()]
    return sorted(path for path in files if not {"build", "__pycache__"} & set(path.relative_to(ROOT).parts))


def _page_of_example(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    if path.name == "README.md":
        return name.replace("README.md", "index.md")
    return f"{name}.md"


for _example in _examples():
    OUTSIDE[_example.relative_to(ROOT).as_posix()] = _page_of_example(_example)
OUTSIDE["examples/custom_operator"] = "examples/custom_operator/index.md"
_ORIGINS = {page: name for name, page in OUTSIDE.items() if (ROOT / name).is_file() and name != "README.md"}


def on_config(config: Any) -> Any:
    """Put the pages of operators into the navigation, by family."""
    families = [{family: [f"operators/{family}/index.md", *_pages_of(family)]} for family in FAMILIES]
    for section in config.nav:
        if "Operators" in section:
            section["Operators"] = ["operators/README.md", *families]
    return config


def _pages_of(family: str) -> list[str]:
    return [f"operators/{family}/{path.name}" for path in sorted((OPERATORS / family).glob("*.md"))]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made of files outside docs/, and an index of every family."""
    contents = {page: _content_of(ROOT / name) for page, name in _ORIGINS.items()}
    contents["examples/index.md"] = _index_of_examples()
    contents |= {f"operators/{family}/index.md": _index_of(family) for family in FAMILIES}
    for name, content in contents.items():
        files.append(File.generated(config, name, content=content))
    return files


def _content_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    if path.name == "LICENSE":
        return f"# Licence\n\n```text\n{text}\n```\n"
    return f"# {path.relative_to(ROOT / 'examples')}\n\n```{LANGUAGES[path.suffix]}\n{text}\n```\n"


def _index_of_examples() -> str:
    rows = []
    for path in _examples():
        if path.suffix == ".py" and path.parent == ROOT / "examples":
            summary = re.match(r'"""(.*?)(?:\n|""")', path.read_text(encoding="utf-8"))
            rows.append(f"| [{path.name}]({path.name}.md) | {summary[1] if summary else ''} |")
    rows.append("| [custom_operator](custom_operator/index.md) | A package to copy: an operator of your own. |")
    rows.append("| [ci.yml](ci.yml.md) | CI on machines without an NPU. |")
    return "\n".join(["# Examples", "", "| file | what it shows |", "|---|---|", *rows, ""])


def _index_of(family: str) -> str:
    lines = [f"# {family}", "", "| page | what it does |", "|---|---|"]
    for name in _pages_of(family):
        title, _, rest = (ROOT / "docs" / name).read_text(encoding="utf-8").partition("\n")
        sentence = rest.strip().split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".:").replace("|", "\\|")
        operators = ", ".join(f"`{operator}`" for operator in title.removeprefix("# ").split(", "))
        lines.append(f"| [{operators}]({posixpath.basename(name)}) | {_without_links(sentence)} |")
    return "\n".join([*lines, ""])


def _without_links(text: str) -> str:
    return _LINK.sub(lambda link: link["text"], text)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to files outside docs/, and to folders, to their pages; drop those to files that have none."""
    source = page.file.src_uri
    if source in WITHOUT_NAVIGATION:
        page.meta["hide"] = ["navigation"]
    origin = _ORIGINS.get(source, f"docs/{source}")
    parts = _FENCE.split(markdown)
    parts[::2] = [_LINK.sub(lambda link: _resolved(link, origin, source), part) for part in parts[::2]]
    return "".join(parts)


def _resolved(link: re.Match[str], origin: str, source: str) -> str:
    target, _, anchor = link["target"].partition("#")
    if not target or "://" in target or target.startswith("mailto:"):
        return link[0]
    name = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
    page = OUTSIDE.get(name)
    if page is None and (ROOT / name).is_dir() and name.startswith("docs/operators"):
        page = f"{name.removeprefix('docs/')}/index.md".replace("operators/index.md", "operators/README.md")
    if page is None and name.startswith("docs/") and (ROOT / name).is_file():
        page = name.removeprefix("docs/")
    if page is None:
        return link["text"] if (ROOT / name).exists() else link[0]
    relative = posixpath.relpath(page, posixpath.dirname(source) or ".")
    return f"{link['image']}[{link['text']}]({relative}{'#' + anchor if anchor else ''})"


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Let pages that are opened from disk search with the site's own script."""
    return output.replace(REMOTE_SHIM, "../" * page.url.count("/") + LOCAL_SHIM)


def on_post_template(output: str, **_: Any) -> str:
    """The same for the page of addresses that do not exist."""
    return output.replace(REMOTE_SHIM, LOCAL_SHIM)
