"""The verdicts as JUnit XML, which CI systems show: one test case for each claim."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from .result import FAILED, NOT_ASSERTED, NOT_REACHED, NOT_RUN, Claim, NotebookRun, Report

# XML 1.0 has no place for these, not even escaped.
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """`report` as the text of an XML file.

    A claim that failed is a failure; one that was not reached, or not asserted on this machine, is
    skipped; one of a notebook that was not run is an error, so an interrupted report is not green.
    """
    root = ET.Element("testsuites", name="workbench report")
    for run in report.notebooks:
        root.append(_suite(run, report))
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', 0)) for suite in root):.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(run: NotebookRun, report: Report) -> ET.Element:
    # A notebook without assertions still has one thing to show: that it runs.
    claims = run.claims or [
        Claim("the notebook runs to its end", [], run.status, run.seconds, run.message)
    ]
    suite = ET.Element("testsuite", name=_text(run.name), time=f"{run.seconds or 0:.3f}")
    suite.set("timestamp", report.provenance.get("date", "")[:19])
    properties = ET.SubElement(suite, "properties")
    for name, value in {**report.provenance, **run.parameters}.items():
        ET.SubElement(properties, "property", name=_text(name), value=_text(value))
    for claim in claims:
        suite.append(_case(run, claim))
    suite.set("tests", str(len(claims)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    return suite


def _case(run: NotebookRun, claim: Claim) -> ET.Element:
    case = ET.Element("testcase", classname=_text(run.name), name=_text(claim.heading))
    case.set("time", f"{claim.seconds or 0:.3f}")
    if claim.status == FAILED:
        message = claim.message or "failed"
        failure = ET.SubElement(case, "failure", message=_text(message.splitlines()[0]))
        failure.set("type", _text(message.split(":")[0]) if ":" in message else "failure")
        broken = [f"cell {a.cell}, line {a.line}: {a.source}" for a in claim.assertions
                  if a.status == FAILED]  # fmt: skip
        failure.text = _text("\n".join([*broken, message]))
    elif claim.status == NOT_RUN:
        ET.SubElement(case, "error", message="the notebook was not run")
    elif claim.status in (NOT_REACHED, NOT_ASSERTED):
        why = {
            NOT_REACHED: f"not reached: the notebook failed at: {run.failed_claim}",
            NOT_ASSERTED: "no assertion of it was evaluated on this machine or with these values",
        }
        ET.SubElement(case, "skipped", message=_text(why[claim.status]))
    return case


def _text(value: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", str(value))
