"""docs/rules.md is what the docstrings say, and every rule has a whole page."""

import re

import pytest

from envcheck.rules import ALL
from envcheck.rules.pages import render_pages


def test_the_pages_are_current(root, golden):
    golden(root / "docs" / "rules.md", render_pages(ALL))


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.id)
def test_a_rule_has_a_whole_page(rule):
    assert rule.title.endswith(".")
    for part in (r"Why:", r"How( it is decided)?:", r"Fix:"):
        assert re.search(rf"(?m)^{part}", rule.page), f"{rule.id}: no {part}"


def test_ids_are_unique_and_every_key_of_the_vocabulary_has_a_rule(matrix):
    assert len({rule.id for rule in ALL}) == len(ALL)
    spoken = {cause for rule in ALL for cause in (rule.cause, *rule.also)}
    assert {row.key for row in matrix.causes} <= spoken
