"""What mkdocs does not do by itself for this project (see mkdocs.yml).

* Pages from outside docs/: the README is the home page, CONTRIBUTING and CHANGELOG are pages.
* A link to any other file of the repository leads to a page that shows that file.
* The reference of the command line, from the commands themselves.
* A page for each notebook: as the last `make report` executed it, or else its source, saying so.
"""

from __future__ import annotations

import html
import inspect
import json
import logging
import os
import posixpath
import re
from collections import Counter
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from mkdocs.structure.toc import get_toc

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# Where the executed notebooks are taken from; `make docs OUT=…` and the tests name another folder.
REPORT = Path(os.environ.get("WORKBENCH_REPORT", ROOT / "report"))
if not REPORT.is_absolute():
    REPORT = ROOT / REPORT

# file of the repository -> page of the site
MOVED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
MOVED["CHANGELOG.md"] = "changelog.md"
ORIGIN = {page: name for name, page in MOVED.items()}

_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
_FENCE = re.compile(r"(^```.*?^```[ \t]*$)", re.M | re.S)
_HEADING = re.compile(r'<h([1-6])[^>]*? id="([^"]*)"[^>]*>(.*?)</h\1>', re.S)
# what workbench/report/pages.py makes of a link to a file beside the notebook
_BESIDE = re.compile(
    r'<span data-file="([^"#]*)(#[^"]*)?">(.*?)(?: \(<code>[^<]*</code>\))?</span>', re.S
)
_log = logging.getLogger("mkdocs.hooks.workbench")


def notebooks() -> list[Path]:
    return sorted((ROOT / "notebooks").glob("[0-9]*.py"))


def verdicts() -> dict[str, dict[str, Any]]:
    """Name of a notebook -> what the last report says of it; those without a page left out."""
    try:
        found = json.loads((REPORT / "report.json").read_text("utf-8"))["notebooks"]
    except (OSError, ValueError, KeyError):
        return {}
    return {run["name"]: run for run in found if run.get("html")}


# ---- events of mkdocs, in the order in which they come -----------------------------------------


def on_config(config: Any) -> Any:
    for section in config.nav:
        if "Course" in section:
            lessons = {f"{n.stem[:2]} {heading(n)}": f"course/{n.stem}.md" for n in notebooks()}
            section["Course"] = [
                {"Overview": "course/index.md"},
                *({title: page} for title, page in lessons.items()),
            ]
    executed = verdicts()
    missing = [n.stem for n in notebooks() if n.stem not in executed]
    if missing:
        # Not a warning: strict would make an error of it, and a site without a report is one too.
        _log.info("Not executed in %s: %s. `make report` does it.", REPORT, ", ".join(missing))
    return config


def on_files(files: Any, config: Any) -> Any:
    def add(page: str, text: str) -> None:
        files.append(File.generated(config, page, content=text))

    for name, page in MOVED.items():
        add(page, (ROOT / name).read_text("utf-8"))
    executed = verdicts()
    add("cli.md", command_line())
    add("course/index.md", course(executed))
    for notebook in notebooks():
        run = executed.get(notebook.stem)
        add(f"course/{notebook.stem}.md", f"# {heading(notebook)}\n" if run else source(notebook))
    pages = [
        *files.documentation_pages(),
        # of an executed one the links are in the report's page, and the same as in its source
        *(File.generated(config, f"course/{n.stem}.md", content=source(n)) for n in notebooks()),
    ]
    linked = {target for page in pages for target in linked_files(page)}
    for target in sorted(linked):
        head = "---\nsearch: {exclude: true}\n---\n"
        add(f"source/{target}.md", f"{head}# {posixpath.basename(target)}\n\n`{target}`\n")
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    # A table under a comment is one for GitHub; Python-Markdown wants the empty line between.
    markdown = re.sub(r"^(<!--.*-->)\n(?=\|)", r"\1\n\n", markdown, flags=re.M)
    here = page.file.src_uri

    def moved(match: re.Match) -> str:
        target = page_of(here, match[2])
        if target is None:
            return match[0]
        relative = posixpath.relpath(target, posixpath.dirname(here) or ".")
        return f"{match[1]}{relative}{match[3] or ''}{match[4]}"

    parts = _FENCE.split(markdown)
    parts[::2] = [_LINK.sub(moved, text) for text in parts[::2]]
    return "".join(parts)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    kind, _, name = page.file.src_uri.partition("/")
    if kind == "source":
        content += shown(name.removesuffix(".md"))
    elif kind == "course" and name.removesuffix(".md") in (executed := verdicts()):
        body, headings = lesson(executed[name.removesuffix(".md")])
        content = _BESIDE.sub(lambda found: beside(page.file.src_uri, found), body)
        page.toc = get_toc(headings)
    else:
        return content
    # mkdocs has seen the anchors of the Markdown alone
    page.present_anchor_ids = {
        *(page.present_anchor_ids or ()),
        *re.findall(r' id="([^"]+)', content),
    }
    return content


def on_post_page(output: str, **_: Any) -> str:
    """The theme's search dialog has no name for a screen reader."""
    return output.replace('class="md-search" ', 'class="md-search" aria-label="Search" ', 1)


# ---- links -------------------------------------------------------------------------------------


def repository_path(page: str, target: str) -> str:
    """The file of the repository that a link in `page` (a name in the site) means."""
    if page.startswith("course/"):
        folder = "notebooks"
    elif page in ORIGIN:
        folder = ""
    else:
        folder = posixpath.dirname(f"docs/{page}")
    return posixpath.normpath(posixpath.join(folder, target))


def page_of(page: str, target: str) -> str | None:
    """The page for a link that mkdocs would not find; None where it does, or nothing is there."""
    if page.startswith("source/") or page == "course/index.md":
        return None
    path = repository_path(page, target)
    if path in MOVED:
        return MOVED[path]
    if path.startswith("docs/") and not path.endswith((".yml", ".py")):
        return path.removeprefix("docs/")
    if not (ROOT / path).is_file() or path.startswith(".."):
        return None  # left as it is: mkdocs then says that it is broken
    if path.startswith("notebooks/"):
        return f"course/{posixpath.basename(path).rpartition('.')[0]}.md"
    return f"source/{path}.md"


def beside(page: str, found: re.Match) -> str:
    """A link of an executed notebook to a file of the repository, to that file's page."""
    target, anchor, words = found.groups()
    path = repository_path(page, target)
    to = page_of(page, target)
    if to is None or not (ROOT / path).is_file():
        _log.warning("%s links to %s, and there is no such file", page, path)  # strict: an error
        return words
    href = posixpath.relpath(to.removesuffix(".md") + ".html", posixpath.dirname(page))
    return f'<a href="{href}{anchor or ""}">{words}</a>'


def linked_files(file: File) -> set[str]:
    """Files of the repository, shown by no other page, that a page links to."""
    text = "".join(_FENCE.split(file.content_string)[::2])
    found = {page_of(file.src_uri, match[2]) for match in _LINK.finditer(text)}
    return {
        p.removeprefix("source/").removesuffix(".md") for p in found if p and p[:7] == "source/"
    }


def shown(name: str) -> str:
    """A file of the repository with a number and an anchor (L7) for each line."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import CppLexer, TextLexer, get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        lexer = CppLexer() if name.endswith(".asc") else get_lexer_for_filename(name)
    except ClassNotFound:
        lexer = TextLexer()
    form = HtmlFormatter(linenos="inline", lineanchors="L", cssclass="highlight numbered")
    text = highlight((ROOT / name).read_text("utf-8", "replace"), lexer, form)
    text = text.replace("<pre>", '<pre tabindex="0">', 1)  # the keyboard can scroll it
    return re.sub(r'<a id="L-(\d+)" name="[^"]*">', r'<a id="L\1">', text)


# ---- the command line --------------------------------------------------------------------------


def command_line() -> str:
    """A section for each command, as its --help has it."""
    import click

    from workbench.cli import cli

    def plain(text: str) -> str:
        """Text that Markdown leaves as it is."""
        return re.sub(r"[|*_\[\]`<>&]", lambda found: f"&#{ord(found[0])};", text)

    def cell(text: str) -> str:
        return plain(" ".join(text.split()))

    def section(command: click.Command, name: str, parent: click.Context | None) -> list[str]:
        context = click.Context(command, info_name=name, parent=parent)
        title = "Help and version" if parent is None else context.command_path
        lines = [f"## {title}", "", plain(inspect.cleandoc(command.help or ""))]
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        lines += ["", f"```text\n{usage}\n```", "", "| option | meaning |", "|---|---|"]
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None:
                option = cell(record[0]).replace("&#124;", "&#124;<wbr>")
                lines.append(f"| <code>{option}</code> | {cell(record[1])} |")
        lines.append("")
        for part, below in sorted(getattr(command, "commands", {}).items()):
            lines += section(below, part, context)
        return lines

    head = ["# Command line", "", "Every command, as its `--help` describes it.", ""]
    return "\n".join(head + section(cli, "workbench", None))


# ---- the course --------------------------------------------------------------------------------


def markdown_cells(notebook: Path) -> list[tuple[str, str]]:
    import jupytext

    cells = jupytext.read(notebook, fmt="py:percent").cells
    return [(cell.cell_type, cell.source) for cell in cells]


def heading(notebook: Path) -> str:
    first = next(text for kind, text in markdown_cells(notebook) if kind == "markdown")
    return first.splitlines()[0].lstrip("# ")


def claim(notebook: Path) -> str:
    first = next(text for kind, text in markdown_cells(notebook) if kind == "markdown")
    return " ".join(first.split("\n\n")[1].split())


def source(notebook: Path) -> str:
    """The notebook as a page without results."""
    note = (
        '!!! note "Not executed here"\n'
        "    These pages were made without a report that has this notebook. `make report`, then\n"
        "    `make docs`, shows it with its figures and verdicts; `make lab` opens it.\n"
    )
    parts = [
        text if kind == "markdown" else f"```python\n{text}\n```"
        for kind, text in markdown_cells(notebook)
        if text.strip()
    ]
    return "\n\n".join([parts[0].partition("\n")[0], note, parts[0].partition("\n")[2], *parts[1:]])


def course(executed: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# Course",
        "",
        "Each notebook takes at most ten minutes. Each claim is a figure with an assertion, so a",
        "notebook is also a test: `make report` executes all of them, `make lab` opens them.",
        "",
        "| | what it claims | last report |",
        "|---|---|---|",
    ]
    for notebook in notebooks():
        run = executed.get(notebook.stem)
        verdict = "not executed"
        if run:
            verdict = verdict_of(run)
        name = f"{notebook.stem[:2]} [{heading(notebook)}]({notebook.stem}.md)"
        lines.append(f"| {name} | {claim(notebook).replace('|', chr(92) + '|')} | {verdict} |")
    return "\n".join(lines) + "\n"


def verdict_of(run: dict[str, Any]) -> str:
    """passed in 12.3 s; claims: 5 passed, 1 not asserted"""
    claims = Counter(one["status"] for one in run.get("claims", []))
    seconds = f" in {run['seconds']:.1f} s" if run.get("seconds") is not None else ""
    counts = ", ".join(f"{number} {status}" for status, number in claims.items())
    return f"{run['status']}{seconds}" + (f"; claims: {counts}" if counts else "")


def lesson(run: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The body of an executed notebook out of the report's page, and its headings, nested."""
    text = (REPORT / run["html"]).read_text("utf-8")
    # made by workbench/report/pages.py, so a change there must be seen here
    found = re.search(r'<main id="notebook">(.*)</main>', text, re.S)
    if found is None:
        raise ValueError(
            f'{REPORT / run["html"]} has no <main id="notebook">: made by another release?'
        )
    body = re.sub(
        r'<a class="anchor-link"([^>]*)>.*?</a>',
        r'<a class="headerlink"\1>¶</a>',
        found[1],
    )
    tokens: list[dict[str, Any]] = []
    for level, name, words in _HEADING.findall(body):
        words = re.sub(r'<a class="headerlink".*?</a>', "", words)
        words = " ".join(html.unescape(re.sub(r"<[^>]*>", "", words)).split())
        token = {"level": int(level), "id": name, "name": html.escape(words), "children": []}
        token["html"] = token["name"]
        if tokens and int(level) > tokens[0]["level"]:
            tokens[0]["children"].append(token)
        else:
            tokens.append(token)
    verdict = html.escape(verdict_of(run))
    note = (
        f'<p class="executed">Executed by <code>make report</code>: {verdict}. '
        "On the twin, no Ascend hardware.</p>"
    )
    return f'<div class="notebook">{note}{body}</div>', tokens
