"""Executes the notebooks without a browser and writes what they found as static pages.

    report/index.html      contents, a verdict for each claim, provenance
    report/NAME.html       one executed notebook each, everything inlined
    report/report.json     the same verdicts for programs
    report/report.xml      and as JUnit XML, one test case for each claim

A claim is a heading with the assertions below it. The report is written again after every
notebook, so an interrupted run leaves the finished ones in place.
"""

from .result import Assertion, Claim, NotebookRun, Report
from .run import run_report

__all__ = ["Assertion", "Claim", "NotebookRun", "Report", "run_report"]
