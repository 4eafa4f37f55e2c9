"""The pages: an index, and one for each notebook, with nothing fetched from elsewhere."""

from __future__ import annotations

import html
import re
from typing import Any

from workbench import paths

from .claims import heading_above
from .result import FAILED, NOT_ASSERTED, NOT_REACHED, NOT_RUN, PASSED, NotebookRun, Report

_WIDGET = "application/vnd.jupyter.widget-view+json"
_NOTE = (
    '<p class="widget-note">An interactive panel stands here{}. '
    "Open the notebook with <code>workbench lab</code> to use it.</p>"
)
_STILL = '<div class="widget-still">{}</div>'
_RELATIVE = re.compile(r'<a href="((?!#|/|\w+:)[^"]*)"[^>]*>(.*?)</a>', re.S)
_HEADING = re.compile(r'<h([1-6])([^>]*?) id="([^"]*)"([^>]*)>(.*?)</h\1>', re.S)


def index_page(report: Report) -> str:
    counts = {
        status: sum(claim.status == status for claim in report.claims)
        for status in (PASSED, FAILED, NOT_REACHED, NOT_ASSERTED, NOT_RUN)
    }
    return render("index.html.j2", report=report, counts=counts)


def notebook_page(notebook: Any, run: NotebookRun, report: Report) -> str:
    """One executed notebook; also finds its first figure, and where in the page each claim is."""
    from nbconvert import HTMLExporter

    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if data.pop(_WIDGET, None) is not None:
                data["text/html"] = _still(data)
            if "image/png" in data:
                meta = output.setdefault("metadata", {}).setdefault("image/png", {})
                above = heading_above(notebook.cells, number) or run.heading
                meta["alt"] = meta.get("alt") or f"Figure under the heading: {above}"
                if run.figure is None:
                    run.figure, run.figure_alt = data["image/png"].strip(), meta["alt"]
    notebook.metadata.pop("widgets", None)
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    body = _mended(body)
    _anchor(body, run)
    return render("notebook.html.j2", run=run, body=body, report=report)


def _still(data: Any) -> str:
    """What stands for a widget, which needs a kernel and scripts from elsewhere.

    Our own widgets say in `text/html` what they showed, with images that hold their data.
    """
    shown = data.get("text/html", "")
    if not shown:
        return _NOTE.format("")
    return _NOTE.format("; below is what it showed") + _STILL.format(shown)


def _mended(body: str) -> str:
    """nbconvert's HTML with names that are unique and regions that the keyboard can scroll."""
    seen: set[str] = set()

    def unique(match: re.Match) -> str:
        level, before, name, after, text = match.groups()
        number = 1
        while (new := name if number == 1 else f"{name}-{number}") in seen:
            number += 1
        seen.add(new)
        # A pilcrow says nothing to a screen reader, and every heading would end with it.
        text = re.sub(
            r'<a class="anchor-link" href="[^"]*">.*?</a>',
            f'<a class="anchor-link" href="#{new}" aria-label="Link to this section">¶</a>',
            text,
        )
        return f'<h{level}{before} id="{new}"{after}>{text}</h{level}>'

    body = _HEADING.sub(unique, body)
    body = _RELATIVE.sub(_named, body)
    return re.sub(r'<div class="(output_area|input_area)"', r'<div tabindex="0" class="\1"', body)


def _named(link: re.Match) -> str:
    """A link to a file beside the notebook, as words: the page goes where that file does not.

    docs/site_hooks.py makes links of them again, where the file has a page.
    """
    path, text = link.groups()
    name = path.removeprefix("../")
    words = text if text == name else f"{text} (<code>{name}</code>)"
    return f'<span data-file="{path}">{words}</span>'


def _anchor(body: str, run: NotebookRun) -> None:
    """Give each claim the id of its heading; the second of two equal headings its own."""
    places: dict[str, list[str]] = {}
    for _, _, name, _, text in _HEADING.findall(body):
        text = re.sub(r'<a class="anchor-link".*?</a>', "", text)
        words = " ".join(html.unescape(re.sub(r"<[^>]*>", "", text)).split())
        places.setdefault(words, []).append(name)
    for claim in run.claims:
        found = places.get(claim.heading, [])
        claim.anchor = found.pop(0) if found else None


def render(name: str, **values: Any) -> str:
    import jinja2
    from pygments.formatters import HtmlFormatter

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.DATA / "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    highlight = {
        theme: HtmlFormatter(style=style).get_style_defs(".highlight")
        for theme, style in (("light", "xcode"), ("dark", "github-dark"))
    }
    return env.get_template(name).render(highlight=highlight, **values)
