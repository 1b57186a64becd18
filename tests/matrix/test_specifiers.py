"""What is read of requirements without packaging's parser is what packaging reads."""

from __future__ import annotations

from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envcheck.matrix.specifiers import allows, bound_on

REQUIREMENTS = (
    "torch", "torch==2.5.1", "torch (==2.5.1)", "torch(==2.5.1)", "Torch == 2.5.1 ", "torch==2.5.1+cu121", "torch===2",
    "torch==2.5.*", "torch==2.5.1; python_version<'3'", "torch[x]==2.5.1", "torch @ https://example.org/torch.whl",
    "torch>=2,<3", "torch (>=2.14.0)", "torch (!=2.1,<3 , >= 2 )", "torch(>=2", "torch >=2)", "torch ~=3.8", "torch>2",
    "torch,", "torch ==2,", "torch()", "torch==foo", "torch==2.5.1-1", "torch==1!2.5", "torch==v2.0", "torch-==1",
    "torchvision==1", "torch_audio==1",
)  # fmt: skip


def told(name: str, text: str) -> Optional[str]:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None
    ours = requirement.name.lower().replace("_", "-") == name and requirement.marker is None
    return str(requirement.specifier) if ours else None


@pytest.mark.parametrize("text", REQUIREMENTS)
@pytest.mark.parametrize("name", ["torch", "torch-audio"])
def test_a_bound_is_read_as_packaging_reads_it(name: str, text: str) -> None:
    assert bound_on(name, text) == told(name, text)


NUMBER = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
SPECIFIERS = st.lists(
    st.builds(str.__add__, st.sampled_from(["==", "!=", ">=", "<=", "<", ">"]), NUMBER), min_size=1, max_size=3
).map(",".join)


@given(SPECIFIERS, NUMBER, st.sampled_from(["", ".post1", "rc1", ".dev1", "+cu121", "a0+b5021ba"]))
def test_a_version_is_let_through_as_packaging_lets_it(specifiers: str, number: str, rest: str) -> None:
    version = Version(number + rest)
    assert allows(specifiers, version) is SpecifierSet(specifiers).contains(version, prereleases=True)


def test_specifiers_that_nobody_can_read_are_no_verdict() -> None:
    assert allows("two", Version("2")) is None
