import contextlib
import datetime as dt
import json

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.errors import UsageError
from envcheck.settings import find_settings, load_settings, parse_size, parse_specifier
from envcheck.settings_tables import schema

PACKAGES = ("torch", "torchvision", "vllm", "onnxruntime-gpu")


@pytest.fixture
def load(tmp_path):
    def load(text, name="envcheck.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return load_settings(path, PACKAGES)

    return load


WHOLE = """
targets = ["aws:p4d.24xlarge", "snapshot.json"]
dockerfiles = ["Dockerfile"]
images = ["nvcr.io/nvidia/pytorch:24.05-py3"]
requirements = ["requirements*.txt"]
files = ["compose.yaml"]
select = ["DRV"]
fail-on = "warning"

[require]
torch = ">=2.1,<2.3"
onnxruntime_gpu = "1.18"
cuda = ">=12.1"
cudnn = ">=8.9"
python = ">=3.10"
driver = ">=535"
gpu = { names = ["A100"], count = 2, capability = ">=8.0", memory = "40GB" }
features = ["bf16", "fp8", "tf32", "nvlink", "mig"]
shm = "8GiB"
ram = "64GB"
disk = 1000
containers = true

[severity]
DRV110 = "error"

[[ignore]]
rule = "DRV110"
reason = "nothing is compiled"
until = 2027-01-31
paths = ["docker/*"]
"""


def test_every_key_of_the_issue_is_read(load):
    project = load(WHOLE)
    need = project.need
    assert need.packages == {"torch": ">=2.1,<2.3", "onnxruntime-gpu": "==1.18.*"}
    assert (need.cuda, need.cudnn, need.python, need.driver) == (">=12.1", ">=8.9", ">=3.10", ">=535")
    assert need.gpu.count == ">=2"
    assert need.gpu.memory_bytes == 40 * 10**9
    assert need.shm_bytes == 8 * 2**30
    assert need.disk_bytes == 1000
    assert need.containers is True
    assert project.settings.fail_on == "warning"
    assert project.settings.ignore[0].until == dt.date(2027, 1, 31)


def test_pyproject_means_the_same_with_its_prefix(load):
    lines = ["[project]", 'name = "x"', ""]
    for line in WHOLE.strip().splitlines():
        if line.startswith("[["):
            lines.append(f"[[tool.envcheck.{line[2:]}")
        elif line.startswith("["):
            lines.append(f"[tool.envcheck.{line[1:]}")
        else:
            lines += ["[tool.envcheck]"] * (line.startswith("targets")) + [line]
    ours, theirs = load(WHOLE), load("\n".join(lines), "pyproject.toml")
    assert ours.settings == theirs.settings
    assert theirs.need.line == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("target = []", "target: unknown key; near: targets"),
        ('[require]\ntroch = ">2"', "require.troch: unknown key; near: torch"),
        ('[require]\ncudda = ">2"', "require.cudda: unknown key; near: cuda"),
        ("[require.gpu]\ncont = 2", "require.gpu.cont: unknown key; near: count"),
        ('[require.packages]\ntroch = "2"', "packages.troch: the matrix knows no such package; near: torch"),
        (
            '[[ignore]]\nrule = "X"\nreason = "y"\nuntil = 2027-01-01\npath = "z"',
            "ignore[0].path: unknown key; near: paths",
        ),
        ('targets = "one"', "targets: Expected 'list', got 'str'"),
        ('fail-on = "errors"', "fail-on: Invalid enum value 'errors'"),
        ('[require]\nfeatures = ["bf17"]', "require.features[0]: Invalid enum value 'bf17'"),
        ('[require]\ncuda = "twelve"', "require.cuda: 'twelve' is no version specifier"),
        ('[require]\nshm = "8 elephants"', "require.shm: '8 elephants' is no size"),
        ('[[ignore]]\nrule = "X"\nuntil = 2027-01-01', "ignore[0]: table missing required field 'reason'"),
        ('[[ignore]]\nrule = "X"\nreason = "y"', "ignore[0]: table missing required field 'until'"),
        ('[[ignore]]\nrule = "X"\nreason = " "\nuntil = 2027-01-01', "ignore[0].reason: say why X may be ignored"),
        ("targets = [", "no valid TOML"),
        ("\ufeff\x00", "no valid TOML"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_key(load, text, told):
    with pytest.raises(UsageError) as error:
        load(text)
    assert "envcheck.toml" in str(error.value)
    assert told.replace("`", "'") in str(error.value)
    assert error.value.exit_code == 2


def test_all_faults_come_at_once(load):
    with pytest.raises(UsageError) as error:
        load('target = []\n[require]\ntroch = "2"\n')
    assert str(error.value).count("unknown key") == 2


def test_a_key_of_pyproject_is_named_as_it_stands_there(load):
    with pytest.raises(UsageError, match=r"tool\.envcheck\.require\.troch: unknown key; near: torch"):
        load('[tool.envcheck.require]\ntroch = "2"', "pyproject.toml")


def test_an_ignore_expires_after_its_last_day(load):
    project = load('\n[[ignore]]\nrule = "DRV110"\nreason = "soon"\nuntil = 2026-11-30\n')
    assert project.expired(dt.date(2026, 11, 30)) == ()
    (entry,) = project.expired(dt.date(2026, 12, 1))
    assert (entry.rule, entry.until, entry.line) == ("DRV110", "2026-11-30", 2)


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GB", 8 * 10**9), ("8GiB", 8 * 2**30), ("512M", 512 * 10**6), ("1.5 tb", 15 * 10**11), ("7", 7), (7, 7)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


def test_a_bare_version_means_it_and_its_patches():
    assert parse_specifier("2.1") == "==2.1.*"
    assert parse_specifier(" >=2.1,<3 ") == ">=2.1,<3"


def test_settings_are_found_upwards_to_the_root_of_the_repository(tmp_path):
    (tmp_path / "envcheck.toml").write_text("")
    repository = tmp_path / "repository"
    inside = repository / "a" / "b"
    inside.mkdir(parents=True)
    assert find_settings(inside) == tmp_path / "envcheck.toml"
    (repository / ".git").mkdir()
    assert find_settings(inside) is None
    (repository / "pyproject.toml").write_text("[project]\n")
    assert find_settings(inside) is None
    (repository / "pyproject.toml").write_text("[tool.envcheck]\n")
    assert find_settings(inside) == repository / "pyproject.toml"
    (repository / "envcheck.toml").write_text("")
    assert find_settings(inside) == repository / "envcheck.toml"


@given(st.text(max_size=200))
def test_no_text_gives_anything_but_settings_or_a_usage_error(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("s") / "envcheck.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(UsageError):
        load_settings(path, PACKAGES)


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["require", "targets", "ignore", "severity", "select", "fail-on", "images"])


@given(st.dictionaries(KEYS, JSONISH, max_size=4))
def test_no_value_of_a_known_key_gives_anything_but_settings_or_a_usage_error(tmp_path_factory, table):
    import tomlkit

    try:
        text = tomlkit.dumps(table)
    except (ValueError, TypeError):
        return
    path = tmp_path_factory.mktemp("s") / "envcheck.toml"
    path.write_text(text, encoding="utf-8")
    with contextlib.suppress(UsageError):
        load_settings(path, PACKAGES)


def test_the_published_schema_is_current(golden, root, matrix):
    made = json.dumps(schema(matrix.packages()), sort_keys=True)
    golden(root / "docs" / "settings.schema.json", msgspec.json.format(made, indent=2) + "\n")


def test_the_published_schema_takes_what_the_tool_takes_and_refuses_a_typo(root, load):
    import tomlkit

    published = json.loads((root / "docs" / "settings.schema.json").read_text())
    table = json.loads(json.dumps(tomlkit.parse(WHOLE).unwrap(), default=str))
    table["require"].pop("onnxruntime_gpu")
    jsonschema.validate(table, published)
    table["require"]["troch"] = "2"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(table, published)
