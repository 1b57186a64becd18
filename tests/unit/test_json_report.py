import json
import sys

import jsonschema
import msgspec
import pytest

from envcheck.report import RenderOptions, render
from envcheck.report.json import schema
from tests.unit.test_text_report import FINDING, NOTE, SNAP, report


@pytest.mark.skipif(sys.version_info < (3, 10), reason="typing's generics have no name there; the file is one for all")
def test_the_published_schema_is_current(golden, root):
    golden(
        root / "docs" / "report.schema.json", msgspec.json.format(json.dumps(schema(), sort_keys=True), indent=2) + "\n"
    )


def test_a_report_fits_the_published_schema(root):
    published = json.loads((root / "docs" / "report.schema.json").read_text())
    jsonschema.validate(json.loads(render(report(FINDING, NOTE), "json", RenderOptions())), published)


def test_the_report_has_the_promised_keys():
    shown = json.loads(render(report(FINDING), "json", RenderOptions()))
    assert shown["schema"] == 1
    assert set(shown) == {"schema", "tool", "snapshot", "findings", "skipped", "summary"}
    assert {"rule", "slug", "cause", "severity", "subject", "message", "evidence", "fix", "url"} <= set(
        shown["findings"][0]
    )
    assert {"verdict", "error", "warning", "note", "skipped"} <= set(shown["summary"])
    assert shown["findings"][0]["evidence"][0]["source"] == "libtorch_cuda.so"


def test_the_same_snapshot_gives_the_same_bytes():
    assert len({render(report(FINDING), "json", RenderOptions()) for _ in range(20)}) == 1


def test_a_report_can_be_read_back(root):
    from envcheck.model.finding import Report

    text = render(report(FINDING, NOTE), "json", RenderOptions())
    assert msgspec.json.decode(text, type=Report).snapshot == SNAP
