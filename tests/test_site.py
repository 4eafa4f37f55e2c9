"""The site builds without a warning, fetches nothing, shows every public name, and the how-to pages
do what they say."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import types
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from workbench.cli import cli, main

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
NOTEBOOK = next(iter(sorted((ROOT / "notebooks").glob("01_*.py")))).stem


def mkdocs(config: Path, out: Path, report: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-f", config, "-d", out],
        cwd=ROOT,
        env={**os.environ, "WORKBENCH_REPORT": str(report), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


# links as notebooks have them
BESIDE = (
    "[cells](../docs/contract.md#x), [next](02_what_a_tile_size_does.ipynb), [us](../README.md)"
)


def a_report(folder: Path) -> Path:
    """What `make report` leaves of one notebook, by the code that writes it."""
    import nbformat

    from workbench.report import pages
    from workbench.report.result import Claim, NotebookRun, Report

    v4 = nbformat.v4
    output = v4.new_output("stream", text="printed-by-the-notebook")
    cells = [
        v4.new_markdown_cell("# The same row, other bits"),
        v4.new_code_cell("print(1)", outputs=[output], execution_count=1),
        v4.new_markdown_cell(f"## A claim of it\n\n{BESIDE}"),
    ]
    claim = Claim("A claim of it", [], status="passed")
    run = NotebookRun(NOTEBOOK, "The same row, other bits", "…", "passed", 1.0, claims=[claim])
    report = Report(str(folder), str(folder / "index.html"), [run], {"date": "2026-01-01T00:00:00"})
    page = pages.notebook_page(v4.new_notebook(cells=cells), run, report)
    run.html = f"{NOTEBOOK}.html"
    folder.mkdir()
    (folder / run.html).write_text(page, "utf-8")
    (folder / "report.json").write_text(json.dumps(report.to_dict()), "utf-8")
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = mkdocs(ROOT / "mkdocs.yml", folder / "out", a_report(folder / "report"))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out"


# ---- the site ----------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a browser would fetch for a page, pictures without a text, and the anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.without_alt: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {given["id"] or ""} if "id" in given else set()
        # rel=canonical, next and prev name pages; nothing is fetched for them
        rel = (given.get("rel") or "").split()
        if tag == "link" and not {"canonical", "next", "prev"} & {*rel}:
            self.fetched.append(given.get("href") or "")
        for name in ("src", "srcset", "poster", "data"):
            if given.get(name) and tag != "a":
                self.fetched.append(given[name] or "")
        if tag == "img" and not (given.get("alt") or "").strip():
            self.without_alt.append(str(given.get("src"))[:80])


def faults(text: str) -> list[str]:
    page = Page(text)
    elsewhere = [u for u in page.fetched if re.match(r"(?:https?:)?//", u)]
    styles = re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", text)
    return [*elsewhere, *styles, *(f"no alt text: {src}" for src in page.without_alt)]


@pytest.mark.slow
def test_pages_fetch_nothing_from_elsewhere_and_describe_their_pictures(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    found = {str(p.relative_to(site)): faults(p.read_text("utf-8")) for p in pages}
    assert {page: what for page, what in found.items() if what} == {}
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", sheet.read_text("utf-8")), sheet


def test_the_check_of_what_is_fetched_can_fail() -> None:
    assert faults('<a href="https://x.org">x</a><img src="a.png" alt="a">') == []
    for bad in (
        '<script src="https://cdn.org/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.org/a.css">',
        "<style>@import 'https://x.org/a.css'</style>",
        '<img src="a.png" alt="">',
    ):
        assert len(faults(bad)) == 1, bad


@pytest.mark.slow
def test_links_that_leave_the_documents_lead_to_pages(site: Path) -> None:
    home = (site / "index.html").read_text("utf-8")
    assert f'href="course/{NOTEBOOK}.html"' in home and 'href="contributing.html"' in home
    assert 'href="source/LICENSE.html"' in home and 'href="twin.html#fidelity"' in home
    twin = (site / "twin.html").read_text("utf-8")
    lines = re.findall(r'href="(source/tests/faults/mem\.asc\.html)#(L\d+)"', twin)
    assert len(lines) > 10
    shown = Page((site / lines[0][0]).read_text("utf-8")).ids
    assert {line for _, line in lines} <= shown and "L100000" not in shown


@pytest.mark.slow
def test_the_course_shows_what_the_report_has_and_says_what_it_has_not(site: Path) -> None:
    executed = (site / "course" / f"{NOTEBOOK}.html").read_text("utf-8")
    assert "printed-by-the-notebook" in executed and "passed in 1.0 s; claims: 1 passed" in executed
    assert 'href="#A-claim-of-it"' in executed, "the headings are in the table of contents"
    for to in ("../contract.html#x", "02_what_a_tile_size_does.html", "../index.html"):
        assert f'href="{to}"' in executed
        assert (site / "course" / to.partition("#")[0]).is_file()
    assert "data-file" not in executed
    rest = [p for p in (site / "course").glob("[0-9]*.html") if p.stem != NOTEBOOK]
    assert rest and all("Not executed here" in p.read_text("utf-8") for p in rest)
    assert {p.stem for p in (ROOT / "notebooks").glob("*.ipynb")} == {p.stem for p in rest} | {
        NOTEBOOK
    }


@pytest.mark.slow
def test_every_command_is_in_the_reference(site: Path) -> None:
    ids = Page((site / "cli.html").read_text("utf-8")).ids
    assert {f"workbench-{name}" for name in cli.commands} <= ids and "workbench-none" not in ids


SOUND = "# A\n\n[b](b.md#there) [c](#a) [d](../kernel.asc#L2)\n"
BROKEN = {
    "a page": "# A\n\n[b](missing.md)\n",
    "an anchor of a page": "# A\n\n[b](b.md#nowhere)\n",
    "an anchor of its own": "# A\n\n[b](#nowhere)\n",
    "a picture": "# A\n\n![b](missing.png)\n",
    "a file beside the documents": "# A\n\n[b](../missing.asc)\n",
    "a line of such a file": "# A\n\n[b](../kernel.asc#L3)\n",
}
# our hooks, for a repository of two pages and one source
SMALL_HOOKS = """
import sys
from pathlib import Path

sys.path.insert(0, {docs!r})
import site_hooks

site_hooks.ROOT = Path({folder!r})
site_hooks.MOVED, site_hooks.ORIGIN, site_hooks.notebooks = {{}}, {{}}, list
from site_hooks import on_files, on_page_content, on_page_markdown
"""


def strict_build(folder: Path, text: str) -> subprocess.CompletedProcess:
    """The same settings and hooks over two small pages."""
    docs = folder / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(text)
    (docs / "b.md").write_text("# B\n\n## There\n")
    (folder / "kernel.asc").write_text("int first;\nint second;\n")
    (folder / "hooks.py").write_text(SMALL_HOOKS.format(docs=str(DOCS), folder=str(folder)))
    settings = {"INHERIT": str(ROOT / "mkdocs.yml"), "plugins": [], "hooks": ["hooks.py"]}
    settings |= {"nav": ["index.md", "b.md", "cli.md", "course/index.md"], "extra_css": []}
    settings |= {"theme": {"name": "mkdocs"}, "docs_dir": "docs"}
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    return mkdocs(folder / "mkdocs.yml", folder / "out", folder / "no-report")


def test_a_link_of_an_executed_notebook_to_nothing_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    import site_hooks

    def link(target: str) -> str:
        words = f'<span data-file="{target}">it (<code>x</code>)</span>'
        return site_hooks._BESIDE.sub(lambda m: site_hooks.beside("course/a.md", m), words)

    assert link("../docs/twin.md") == '<a href="../twin.html">it</a>' and not caplog.records
    assert link("../docs/missing.md") == "it"
    (record,) = caplog.records
    assert record.levelname == "WARNING" and "docs/missing.md" in record.getMessage()


def test_a_sound_page_builds(tmp_path: Path) -> None:
    done = strict_build(tmp_path, SOUND)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_link_fails_the_build(what: str, tmp_path: Path) -> None:
    done = strict_build(tmp_path, BROKEN[what])
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "Aborted with 1 warning" in said, said


def test_make_docs_is_the_build_that_is_tested() -> None:
    """With --quiet mkdocs counts no warning, and strict lets every broken link pass."""
    recipe = re.search(r"^docs:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert recipe and 'mkdocs" build' in recipe[1]
    assert not re.search(r"--quiet|-q\b|--no-strict", recipe[1])


# ---- the reference -----------------------------------------------------------------------------


def found_object(identifier: str) -> object:
    """What `::: a.b.C` names."""
    parts = identifier.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            value = getattr(value, name)
        return value
    raise AssertionError(f"there is no {identifier}")


def public_names() -> dict[str, object]:
    """workbench.orders.ReductionTree -> the class, for each `__all__` of the package."""
    names: dict[str, object] = {}
    for init in sorted((ROOT / "workbench").rglob("__init__.py")):
        module = importlib.import_module(".".join(init.parent.relative_to(ROOT).parts))
        for name in getattr(module, "__all__", ()):
            names[f"{module.__name__}.{name}"] = getattr(module, name)
    del names["workbench.__version__"]
    return names


def undocumented(pages: str, names: dict[str, object]) -> list[str]:
    identifiers = re.findall(r"^::: (\S+)$", pages, re.M)
    objects = [found_object(i) for i in identifiers]

    def there(value: object) -> bool:
        if isinstance(value, types.ModuleType):  # callable, or its members are documented
            call = vars(type(value)).get("__call__")  # of `_callable.make_callable`
            call = getattr(call, "__func__", call)
            return call in objects or any(i.startswith(value.__name__) for i in identifiers)
        return any(value is one for one in objects)

    return [name for name, value in names.items() if not there(value)]


def api_pages() -> str:
    return "\n".join(page.read_text("utf-8") for page in sorted((DOCS / "api").glob("*.md")))


def test_every_public_name_is_in_the_reference() -> None:
    names = public_names()
    assert len(names) > 150
    assert undocumented(api_pages(), names) == [], "add `::: module.name` to a page of docs/api"


def test_the_comparison_of_names_can_fail() -> None:
    less = re.sub(r"^::: workbench\.numerics\.drift\.measure\.drift$", "", api_pages(), flags=re.M)
    missing = undocumented(less, public_names())
    assert missing == [
        "workbench.drift",
        "workbench.numerics.drift",
        "workbench.numerics.drift.drift",
    ]


@pytest.mark.slow
def test_each_name_is_on_its_built_page_with_its_docstring(site: Path) -> None:
    for page in sorted((DOCS / "api").glob("*.md")):
        built = (site / "api" / f"{page.stem}.html").read_text("utf-8")
        names = re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.M)
        assert [name for name in names if f'id="{name}"' not in built] == []


# ---- glossary and how-to -----------------------------------------------------------------------


def test_the_glossary_is_sorted_and_its_terms_are_those_of_the_interface() -> None:
    terms = re.findall(r"^### (.+)$", (DOCS / "glossary.md").read_text("utf-8"), re.M)
    assert terms == sorted(terms, key=str.lower) and len(terms) > 25
    sources = [*(ROOT / "workbench").rglob("*.py"), *(ROOT / "notebooks").glob("*.py")]
    text = " ".join(" ".join(p.read_text("utf-8") for p in sources).lower().split())
    unused = [term for term in [*terms, "flux capacitor"] if term.lower() not in text]
    assert unused == ["flux capacitor"]


def commands(text: str) -> list[list[str]]:
    """The lines of the shell blocks of a page, as words."""
    blocks = re.findall(r"^ *```bash\n(.*?)^ *```", text, re.M | re.S)
    return [line.split() for block in blocks for line in block.splitlines() if line.strip()]


# too long for a test of a page; tests of their own run them
LONG = {("workbench", "report"), ("workbench", "mutations"), ("workbench", "doctor")}


@pytest.mark.parametrize("page", HOW_TO, ids=lambda p: p.stem)
def test_what_a_how_to_page_says_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are written, commands run, then the Python, in one folder, as a reader would."""
    text = page.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    for name, body in re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', text, re.M | re.S):
        Path(name).write_text(body)
    run = 0
    for words in commands(text):
        assert words[0] == "workbench", words
        options = {option for p in cli.commands[words[1]].params for option in p.opts}
        assert {w for w in words if w.startswith("-")} <= options
        if tuple(words[:2]) in LONG:
            assert CliRunner().invoke(cli, [words[1], "--help"]).exit_code == 0
        else:
            assert main(words[1:]) == 0, " ".join(words)
            run += 1
    assert run
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(block, names)


def test_the_workflow_that_the_page_names_calls_commands_that_exist() -> None:
    from workbench.commands.report import report

    (name,) = re.findall(
        r"\((\.\./ci/[^)]+)\)", (DOCS / "how-to" / "run-in-ci.md").read_text("utf-8")
    )
    (job,) = yaml.safe_load((DOCS / "how-to" / name).read_text("utf-8"))["jobs"].values()
    lines = "\n".join(step.get("run", "") for step in job["steps"]).splitlines()
    calls = [line.split() for line in lines if line.startswith("workbench ")]
    assert {words[1] for words in calls} >= {"report"} and job["timeout-minutes"]
    known = {option for p in report.params for option in p.opts}
    for words in calls:
        assert words[1] in cli.commands
        if words[1] == "report":
            assert {w for w in words if w.startswith("-")} <= known
    assert "--no-such-option" not in known
