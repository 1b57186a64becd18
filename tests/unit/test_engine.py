import pytest

from envcheck.model.fact import known
from envcheck.model.finding import Problem
from envcheck.model.machine import Machine
from envcheck.model.snapshot import Snapshot
from envcheck.rules.engine import judge
from envcheck.rules.rule import rule


def make(id, severity="error", *, judge_by=None, **more):
    def body(snap, matrix):
        """Title."""
        yield Problem(id)

    return rule(id, id.lower(), severity, cause=more.pop("cause", f"cause-{id}"), **more)(judge_by or body)


def needs_driver(snap, matrix):
    """Title."""
    if snap.machine.driver.get() is None:
        yield Problem("no driver")


def test_a_rule_that_meets_an_unknown_fact_is_skipped_with_the_reason(matrix):
    outcome = judge(Snapshot(), matrix, [make("DRV100", judge_by=needs_driver)])
    assert not outcome.findings
    assert [s.reason for s in outcome.skipped] == ["NVIDIA driver: not told"]


def test_an_absent_value_is_judged(matrix):
    snap = Snapshot(machine=Machine(driver=known(None, "test")))
    assert [f.rule for f in judge(snap, matrix, [make("DRV100", judge_by=needs_driver)]).findings] == ["DRV100"]


def test_what_was_found_before_an_unknown_fact_stays_found(matrix):
    def half(snap, matrix):
        """Title."""
        yield Problem("first GPU")
        snap.machine.driver.get()

    outcome = judge(Snapshot(), matrix, [make("GPU100", judge_by=half)])
    assert [f.message for f in outcome.findings] == ["first GPU"]
    assert outcome.skipped


def test_one_rules_crash_is_a_tool_fault_and_hides_nothing(matrix):
    def broken(snap, matrix):
        """Title."""
        raise ZeroDivisionError("oops")
        yield

    outcome = judge(Snapshot(), matrix, [make("GPU100", judge_by=broken), make("GPU101")])
    assert [f.rule for f in outcome.findings] == ["GPU101"]
    assert outcome.crashed == ("GPU100",)
    assert "fault in envcheck" in outcome.skipped[0].reason


def test_errors_come_before_warnings_and_roots_before_the_rest(matrix):
    rules = [make("AAA100", "note"), make("BBB100", "warning"), make("CCC100", rank=90), make("DDD100", rank=10)]
    assert [f.rule for f in judge(Snapshot(), matrix, rules).findings] == ["DDD100", "CCC100", "BBB100", "AAA100"]


def test_a_consequence_is_dropped_when_its_cause_is_found(matrix):
    rules = [make("AAA100"), make("BBB100", explains=("AAA100",))]
    assert [f.rule for f in judge(Snapshot(), matrix, rules).findings] == ["BBB100"]


def test_the_same_problem_is_said_once(matrix):
    def twice(snap, matrix):
        """Title."""
        yield Problem("same")
        yield Problem("same")

    assert len(judge(Snapshot(), matrix, [make("AAA100", judge_by=twice)]).findings) == 1


def test_a_malformed_rule_id_is_refused():
    with pytest.raises(ValueError, match="three letters"):
        make("A1")
