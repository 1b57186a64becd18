import json
from pathlib import Path

import jsonschema
import pytest

from envcheck.model.finding import Suppressed
from envcheck.report import RenderOptions, render

from .conftest import finding, gate, report

SCHEMA = json.loads((Path(__file__).parents[2] / "data" / "sarif-2.1.0.json").read_text())
VALIDATOR = jsonschema.Draft4Validator(SCHEMA)
OPTIONS = RenderOptions(settings_path="ci/env check.toml", settings_line=7)


def run_of(judged, options=OPTIONS):
    log = json.loads(render(judged, "sarif", options))
    VALIDATOR.validate(log)
    return log["runs"][0]


def test_the_schema_is_the_one_of_the_standard():
    assert "sarif/v2.1.0" in SCHEMA["id"]
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({"version": "2.1.0", "runs": [{"results": [{}]}]})


def test_every_kind_of_result_is_valid(one_of_each):
    assert run_of(one_of_each)["results"]


def test_an_empty_report_is_valid():
    assert run_of(report())["results"] == []


def test_a_file_finding_has_file_line_and_fingerprint(one_of_each):
    result = next(r for r in run_of(one_of_each)["results"] if r["level"] == "error" and "suppressions" not in r)
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "Dockerfile"
    assert place["region"]["startLine"] == 3
    assert len(result["partialFingerprints"]["envcheck/v1"]) == 64


def test_a_host_finding_is_anchored_to_the_settings(one_of_each):
    result = next(r for r in run_of(one_of_each)["results"] if r["level"] == "warning")
    place = result["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "ci/env%20check.toml"
    assert place["physicalLocation"]["region"]["startLine"] == 7
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "the machine on aws:p4d.24xlarge"


def test_the_same_fault_on_two_targets_is_one_result_that_names_both(one_of_each):
    results = [r for r in run_of(one_of_each)["results"] if r["level"] == "error" and "suppressions" not in r]
    assert len(results) == 1
    assert "on: aws:p4d.24xlarge, this host" in results[0]["message"]["text"]


def test_an_ignored_finding_is_suppressed_with_its_reason(one_of_each):
    result = next(r for r in run_of(one_of_each)["results"] if "suppressions" in r)
    assert result["suppressions"][0]["justification"] == "waiting (until 2027-01-01)"


def test_a_finding_of_the_baseline_is_unchanged():
    old = Suppressed(finding(), "baseline", "in the baseline")
    result = run_of(report(suppressed=(old,)))["results"][0]
    assert result["baselineState"] == "unchanged"
    assert result["suppressions"]


def test_what_could_not_be_judged_is_a_notification_and_no_success(one_of_each):
    invocation = run_of(one_of_each)["invocations"][0]
    assert invocation["executionSuccessful"] is False
    told = [n["message"]["text"] for n in invocation["toolExecutionNotifications"]]
    assert any("nvcr.io/x:1" in text and "did not answer" in text for text in told)
    assert len(told) == 2


def test_the_fingerprint_survives_a_moved_line_and_not_another_message():
    def mark(**kwargs):
        return run_of(report(finding(path="Dockerfile", **kwargs)))["results"][0]["partialFingerprints"]

    assert mark(line=3) == mark(line=9)
    assert mark(line=3) != mark(line=3, message="driver 470 is too old")


def test_every_rule_index_names_its_rule():
    run = run_of(gate(*one_of_two()))
    rules = run["tool"]["driver"]["rules"]
    assert [rules[r["ruleIndex"]]["id"] for r in run["results"]] == [r["ruleId"] for r in run["results"]]
    assert [rule["id"] for rule in rules] == ["CTR101", "DRV101"]


def one_of_two():
    from envcheck.model.gate import Cell

    return (Cell("a", "x", report(finding())), Cell("a", "y", report(finding(rule="CTR101"))))
