import hashlib
import html.parser
import json
import re
import xml.etree.ElementTree as ET

import junitparser
import pytest

from envcheck.model.gate import Cell
from envcheck.report import FORMATS, RenderOptions, render

from .conftest import FILE, finding, gate, report

EVIL = (
    "x%0A::error::pwned\n::set-output name=a::b\r\n##[add-path]/tmp ${{ github.token }}"
    " <script>alert(1)</script> | `rm` ]] \x1b[31m \ufffe"
)
OPTIONS = RenderOptions(settings_path="envcheck.toml", settings_line=2)


def evil():
    bad = finding(message=EVIL, path="a,b:c\nd", line=1, subject=EVIL)
    return gate(
        Cell(EVIL, EVIL, report(bad, snap=FILE)),
        Cell("plain", EVIL, failure=EVIL),
    )


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_renders_both_kinds_ends_with_a_newline_and_is_stable(name, one_of_each):
    for judged in (one_of_each, report(finding()), report()):
        made = {render(judged, name, OPTIONS) for _ in range(3)}
        assert len(made) == 1
        assert made.pop().endswith("\n")


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"json"}))
def test_no_format_lets_control_characters_through(name):
    shown = render(evil(), name, OPTIONS)
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "\ufffe" not in shown


# ---- GitHub annotations


def test_an_annotation_names_file_line_rule_and_fix(one_of_each):
    line = next(x for x in render(one_of_each, "github", OPTIONS).splitlines() if x.startswith("::error "))
    assert line.startswith("::error file=Dockerfile,line=3,title=DRV101 driver-too-old::driver 535 is too old%0A")
    assert "fix: apt-get install nvidia-driver-580" in line


def test_severities_become_error_warning_and_notice(one_of_each):
    commands = [line.split(" ")[0] for line in render(one_of_each, "github", OPTIONS).splitlines()]
    assert commands == ["::error", "::warning", "::notice", "::warning", "::warning"]  # two cells are unknown


def test_hostile_text_stays_inside_its_own_annotation():
    lines = render(evil(), "github", OPTIONS).splitlines()
    assert len(lines) == 2
    assert all(line.startswith(("::error file=", "::warning title=")) for line in lines)
    assert "file=a%2Cb%3Ac%0Ad," in lines[0]
    assert "x%250A" in lines[0]


def test_suppressed_findings_annotate_nothing(one_of_each):
    assert "old news" not in render(one_of_each, "github", OPTIONS)


# ---- JUnit


def test_junit_is_read_back_by_junitparser(one_of_each):
    xml = junitparser.JUnitXml.fromstring(render(one_of_each, "junit", OPTIONS).encode())
    assert {suite.name for suite in xml} == {"envcheck aws:p4d.24xlarge", "envcheck this host"}
    assert xml.tests == 7
    assert xml.failures == 2
    assert xml.errors == 2


def test_a_case_that_could_not_be_judged_is_an_error_never_a_pass(one_of_each):
    root = ET.fromstring(render(one_of_each, "junit", OPTIONS))
    errors = {
        case.get("name"): case.find("error").get("type")
        for case in root.iter("testcase")
        if case.find("error") is not None
    }
    assert errors == {"the machine": "inconclusive", "nvcr.io/x:1": "could-not-inspect"}


@pytest.mark.parametrize(("fail_on", "failures"), [("error", 2), ("warning", 3), ("note", 4), ("never", 0)])
def test_junit_fails_what_the_gate_fails_on(one_of_each, fail_on, failures):
    import msgspec

    xml = junitparser.JUnitXml.fromstring(
        render(msgspec.structs.replace(one_of_each, fail_on=fail_on), "junit", OPTIONS).encode()
    )
    assert xml.failures == failures


def test_junit_of_hostile_text_is_well_formed():
    root = ET.fromstring(render(evil(), "junit", OPTIONS))
    assert "<script>" in root.find(".//failure").get("message")


# ---- GitLab


def test_gitlab_entries_have_the_keys_that_gitlab_reads(one_of_each):
    entries = json.loads(render(one_of_each, "gitlab", OPTIONS))
    assert len(entries) == 3
    for entry in entries:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert entry["location"]["path"]
        assert entry["location"]["lines"]["begin"] >= 1
    assert len({entry["fingerprint"] for entry in entries}) == 3


# ---- Markdown


def test_the_summary_shows_verdict_table_and_fix(one_of_each):
    shown = render(one_of_each, "markdown", OPTIONS)
    assert shown.startswith("### ❌ envcheck: This will not run: 2 errors, 1 warning in 3 of 7 checks")
    assert "| `Dockerfile` | ❌ | ❌ |" in shown
    assert "- fix: `apt-get install nvidia-driver-580`" in shown
    assert "1 finding suppressed" in shown


def test_hostile_text_is_no_markup_in_the_summary():
    shown = render(evil(), "markdown", OPTIONS)
    outside = re.sub(r"(`+)(?!`).*?\1", "", shown)  # what stands in a code span is shown, not read
    assert "<script" not in outside
    assert all(not line.startswith("::") for line in shown.splitlines())
    assert "\\|" in outside


def test_a_summary_too_long_for_github_is_cut_and_says_so():
    many = gate(*(Cell(f"f{n}", "", report(finding(message=f"{n} " + "x" * 3000))) for n in range(600)))
    shown = render(many, "markdown", OPTIONS)
    assert len(shown.encode()) < 1_000_000
    assert "left out: see the JSON or HTML report" in shown


# ---- HTML


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for key, value in attrs if key in ("href", "src")]

    def handle_data(self, data):
        self.text.append(data)


def page(judged):
    read = Page()
    read.feed(render(judged, "html", OPTIONS))
    return read


def test_the_page_is_whole_by_itself(one_of_each):
    read = page(one_of_each)
    assert not {"script", "link", "img", "iframe", "object"} & set(read.tags)
    assert set(read.links) == {"https://github.com/envcheck/envcheck/blob/main/docs/rules.md#drv101"}
    assert "url(" not in render(one_of_each, "html", OPTIONS)


def test_hostile_text_is_text_on_the_page():
    read = page(evil())
    assert "script" not in read.tags
    assert "<script>alert(1)</script>" in "".join(read.text)


def test_a_link_that_is_no_link_is_left_out():
    import msgspec

    bad = msgspec.structs.replace(finding(), url="javascript:alert(1)")
    assert page(report(bad)).links == []


# ---- the table


def test_the_table_has_a_row_for_each_thing_and_a_column_for_each_target(one_of_each):
    lines = render(one_of_each, "text", RenderOptions()).splitlines()
    assert lines[0].startswith(
        "✗ This will not run: 2 errors, 1 warning in 3 of 7 checks; 2 checks could not be judged"
    )
    head = next(line for line in lines if "aws:p4d.24xlarge" in line)
    assert head.split() == ["aws:p4d.24xlarge", "this", "host"]
    row = next(line for line in lines if line.lstrip().startswith("Dockerfile "))
    assert row.split() == ["Dockerfile", "✗", "1", "error", "✗", "1", "error"]


def test_many_quiet_rows_are_counted_not_shown():
    cells = [Cell(f"r{n}.txt", "this host", report()) for n in range(60)]
    cells.append(Cell("bad.txt", "this host", report(finding())))
    shown = render(gate(*cells), "text", RenderOptions())
    assert "60 rows with nothing wrong not shown" in shown
    assert "r7.txt" not in shown
    assert "r7.txt" in render(gate(*cells), "text", RenderOptions(verbose=True))


def test_findings_that_do_not_count_are_counted_by_word(one_of_each):
    assert "1 finding suppressed (-v)" in render(one_of_each, "text", RenderOptions())
    assert "waiting (until 2027-01-01)" in render(one_of_each, "text", RenderOptions(verbose=True))


def test_the_vendored_schema_is_unchanged(root):
    data = (root / "tests" / "data" / "sarif-2.1.0.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"
