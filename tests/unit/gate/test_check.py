"""`envcheck check` as a project uses it: settings in, table and exit code out."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.model.fact import known
from envcheck.model.machine import Driver, Gpu, Machine
from envcheck.model.snapshot import Origin, Snapshot
from envcheck.model.stack import Package, Python, Stack
from envcheck.report import FORMATS

GOOD = (
    "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\n"
    "RUN pip install torch==2.5.1 --index-url https://download.pytorch.org/whl/cu124\n"
)
WRONG_TAG = GOOD.replace("cu124", "cu126")
BASE = 'targets = ["aws:g5.xlarge"]\ndockerfiles = ["Dockerfile"]\nrequire.driver = ">=550"\n'


def snapshot(**machine):
    gpu = Gpu("NVIDIA A10G", index=0, capability="8.6", memory_mib=23028)
    made = {
        "os": known("linux", "t"),
        "arch": known("x86_64", "t"),
        "gpus": known((gpu,), "NVML"),
        "driver": known(Driver("550.54.14", cuda="12.4"), "NVML"),
        "driver_fault": known(None, "NVML"),
        **machine,
    }
    stack = Stack(
        python=known(Python("3.11.9"), "t"),
        packages=known((Package("torch", "2.5.1+cu124", "cu124", "12.4"),), "site-packages"),
        complete=known(True, "t"),
    )
    return msgspec.json.encode(Snapshot(origin=Origin("host", "node7"), machine=Machine(**made), stack=stack)).decode()


@pytest.fixture
def check(tmp_path, envcheck):
    """`check(settings, {"Dockerfile": …}, "--format", …)` in a project of these files."""

    def run(settings, files=None, *args, name="envcheck.toml"):
        for file, text in {name: settings, "Dockerfile": GOOD, **(files or {})}.items():
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = envcheck("check", *args)
        assert b"Traceback" not in done.stderr
        return done

    return run


CASES = {
    0: (BASE, {}),
    1: (BASE, {"Dockerfile": WRONG_TAG}),
    2: (BASE + "dockerfile = []\n", {}),
    3: ('targets = ["node.json"]\n[require]\nshm = "8GB"\n', {"node.json": snapshot()}),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("code", CASES)
def test_the_exit_code_is_the_same_in_every_format(check, code, name):
    settings, files = CASES[code]
    assert check(settings, files, "--format", name).returncode == code


def test_several_formats_come_from_one_run(check, tmp_path):
    done = check(BASE, {"Dockerfile": WRONG_TAG}, "--format=text", "--format=sarif:a.sarif", "--format=junit:j.xml")
    assert done.returncode == 1
    assert "FIL104" in done.stdout.decode()
    assert "FIL104" in (tmp_path / "a.sarif").read_text()
    assert "FIL104" in (tmp_path / "j.xml").read_text()


def test_the_finding_names_file_line_and_fix(check):
    shown = check(BASE, {"Dockerfile": WRONG_TAG}).stdout.decode()
    assert "Dockerfile:2" in shown
    assert "cu126" in shown
    assert "fix" in shown


def test_rows_are_what_and_columns_are_where(check):
    settings = (
        'targets = ["aws:g5.xlarge", "aws:p4d.24xlarge"]\ndockerfiles = ["Dockerfile"]\nrequirements = ["r*.txt"]\n'
    )
    gate = json.loads(check(settings, {"r1.txt": "torch==2.5.1\n", "r2.txt": "six\n"}, "--format=json").stdout)
    names = [(cell["what"], cell["where"]) for cell in gate["cells"]]
    assert names[:2] == [("the machine", "aws:g5.xlarge"), ("the machine", "aws:p4d.24xlarge")]
    assert len(names) == 8
    assert {what for what, _ in names} == {"the machine", "Dockerfile", "r1.txt", "r2.txt"}


@pytest.mark.parametrize(
    ("require", "rule"),
    [
        ('torch = ">=2.6"', "SET101"),
        ('cuda = ">=12.6"', "SET102"),
        ('python = ">=3.12"', "SET104"),
        ('driver = ">=560"', "SET105"),
        ("gpu = { count = 2 }", "SET111"),
        ('gpu = { memory = "40GB" }', "SET111"),
        ('gpu = { capability = ">=9.0" }', "SET111"),
        ('gpu = { names = ["H100"] }', "SET111"),
        ('features = ["fp8"]', "SET112"),
        ('shm = "8GB"', "SET121"),
        ('ram = "64GB"', "SET122"),
        ('disk = "100GB"', "SET123"),
        ("containers = true", "SET124"),
    ],
)
def test_a_machine_that_is_not_as_required_fails(check, require, rule):
    poor = snapshot(
        shm_bytes=known(64 << 20, "statvfs"),
        ram_bytes=known(32 << 30, "/proc/meminfo"),
        disk_free_bytes=known(10 << 30, "statvfs"),
        engine=known(None, "PATH"),
        toolkit=known(None, "PATH"),
    )
    settings = f'targets = ["node.json"]\nselect = ["SET"]\n[require]\n{require}\n'
    done = check(settings, {"node.json": poor}, "--format=json")
    assert done.returncode == 1, done.stdout
    gate = json.loads(done.stdout)
    assert {f["rule"] for cell in gate["cells"] for f in cell["report"]["findings"]} == {rule}


@pytest.mark.parametrize(
    "require",
    [
        'torch = ">=2.5,<2.6"',
        'cuda = "12.4"',
        'python = "3.11"',
        'driver = ">=550"',
        'gpu = { names = ["A10G"], count = 1, memory = "24GB", capability = ">=8.6" }',
        'features = ["bf16", "tf32"]',
    ],
)
def test_a_machine_as_required_passes(check, require):
    settings = f'targets = ["node.json"]\nselect = ["SET"]\n[require]\n{require}\n'
    done = check(settings, {"node.json": snapshot()})
    assert done.returncode == 0, done.stdout.decode()


def test_nvidias_pre_release_build_is_the_release_that_it_was_cut_from():
    from envcheck.rules.need import meets

    assert meets(">=2.1,<2.3", "2.1.0a0+b5021ba")
    assert not meets(">=2.1,<2.3", "2.1.0a0")
    assert not meets(">=2.1,<2.3", "2.0.0a0+1767026")


def test_what_a_cloud_type_can_not_tell_is_listed_not_passed_over(check):
    done = check('targets = ["aws:g5.xlarge"]\n[require]\nshm = "8GB"\n')
    assert done.returncode == 0
    assert "Not judged: SET121" in done.stdout.decode()


def test_a_cloud_type_is_judged_on_the_lowest_driver_that_the_settings_promise(check):
    promise = 'targets = ["aws:g5.xlarge"]\ndockerfiles = ["Dockerfile"]\nrequire.driver = "{}"\n'
    assert check(promise.format(">=550")).returncode == 0
    old = check(promise.format(">=470,<600"))
    assert old.returncode == 1
    assert "DRV101" in old.stdout.decode()
    assert "envcheck.toml: require.driver" in old.stdout.decode()


def test_without_a_promise_it_is_said_which_driver_a_file_needs(check):
    done = check('targets = ["aws:g5.xlarge"]\ndockerfiles = ["Dockerfile"]\n', {}, "-v")
    assert "the driver isn't told" in done.stdout.decode()


# ---- ignores, severities, baseline

IGNORE = BASE + '\n[[ignore]]\nrule = "{rule}"\nreason = "wheel is built here"\nuntil = {until}\n{more}\n'


@pytest.mark.parametrize("rule", ["FIL104", "no-such-build", "FIL"])
def test_an_ignored_finding_does_not_count_and_is_told(check, rule):
    done = check(IGNORE.format(rule=rule, until="2999-01-01", more=""), {"Dockerfile": WRONG_TAG}, "-v")
    assert done.returncode == 0
    assert "wheel is built here (until 2999-01-01)" in done.stdout.decode()


def test_an_ignore_of_other_files_ignores_nothing_here(check):
    settings = IGNORE.format(rule="FIL104", until="2999-01-01", more='paths = ["docker/*"]')
    assert check(settings, {"Dockerfile": WRONG_TAG}).returncode == 1


def test_an_expired_ignore_brings_the_finding_back_and_is_one_itself(check):
    done = check(IGNORE.format(rule="FIL104", until="2020-01-01", more=""), {"Dockerfile": WRONG_TAG})
    shown = done.stdout.decode()
    assert done.returncode == 1
    assert "FIL104" in shown
    assert "SET201  envcheck.toml:5: the ignore of FIL104 ended on 2020-01-01" in shown


def test_a_severity_of_the_settings_wins(check):
    settings = BASE + '[severity]\nFIL104 = "warning"\n'
    assert check(settings, {"Dockerfile": WRONG_TAG}).returncode == 0
    assert check(settings, {"Dockerfile": WRONG_TAG}, "--fail-on=warning").returncode == 1
    assert check('fail-on = "warning"\n' + settings, {"Dockerfile": WRONG_TAG}).returncode == 1


def test_a_rule_that_is_none_is_named(check):
    done = check(BASE + 'select = ["FIL999"]\n')
    assert done.returncode == 2
    assert b"FIL999" in done.stderr


@pytest.mark.parametrize(
    "more", ['[severity]\nFIL999 = "note"\n', IGNORE.format(rule="FIL999", until="2999-01-01", more="")]
)
def test_a_rule_that_is_none_is_named_wherever_it_stands(check, more):
    done = check(more if more.startswith(BASE) else BASE + more)
    assert done.returncode == 2
    assert b"FIL999" in done.stderr


def test_the_baseline_fails_only_on_what_is_new(check, tmp_path):
    args = ("--baseline", "known.json")
    first = check(BASE, {"Dockerfile": WRONG_TAG}, *args, "--update-baseline")
    assert first.returncode == 0
    assert "FIL104" in {entry["rule"] for entry in json.loads((tmp_path / "known.json").read_text())["findings"]}
    assert check(BASE, {"Dockerfile": WRONG_TAG}, *args).returncode == 0
    moved = "# a line above\n" + WRONG_TAG
    assert check(BASE, {"Dockerfile": moved}, *args).returncode == 0
    new = WRONG_TAG.replace("cu126", "cu92")
    assert check(BASE, {"Dockerfile": new}, *args).returncode == 1


def test_the_baseline_forgets_what_was_mended(check, tmp_path):
    args = ("--baseline", "known.json")
    check(BASE, {"Dockerfile": WRONG_TAG}, *args, "--update-baseline")
    check(BASE, {"Dockerfile": GOOD}, *args, "--update-baseline")
    assert "FIL104" not in (tmp_path / "known.json").read_text()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": 2, "findings": []}', "\0"])
def test_a_baseline_that_is_none_is_refused(check, text):
    done = check(BASE, {"known.json": text}, "--baseline", "known.json")
    assert done.returncode == 2
    assert b"known.json" in done.stderr


# ---- wrong use


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ('targets = ["aws:p4d.24xlrge"]\n', b"aws:p4d.24xlarge"),
        ('dockerfiles = ["Dockerfil"]\n', b"no file is called 'Dockerfil'"),
        ('requirements = ["req/*.txt"]\n', b"no file is called 'req/*.txt'"),
        ('images = ["not an image"]\n', b"not an image"),
    ],
)
def test_a_name_that_is_none_is_the_settings_fault(check, settings, told):
    done = check(settings)
    assert done.returncode == 2
    assert told in done.stderr


def test_without_settings_it_says_what_to_do(envcheck):
    done = envcheck("check")
    assert done.returncode == 2
    assert b"envcheck init" in done.stderr


def test_update_baseline_needs_a_file(check):
    assert check(BASE, {}, "--update-baseline").returncode == 2


def test_files_on_the_command_line_need_no_settings(envcheck, tmp_path):
    (tmp_path / "Dockerfile").write_text(WRONG_TAG)
    assert envcheck("check", "Dockerfile").returncode == 1
    (tmp_path / "Dockerfile").write_text(GOOD)
    assert envcheck("check", "--", "Dockerfile").returncode == 0


def test_settings_of_another_folder_start_their_patterns_there(envcheck, tmp_path):
    inside = tmp_path / "service"
    inside.mkdir()
    (inside / "Dockerfile").write_text(WRONG_TAG)
    (inside / "envcheck.toml").write_text('dockerfiles = ["Dockerfile"]\n')
    done = envcheck("check", "--config", "service/envcheck.toml", "--format=github")
    assert done.returncode == 1
    assert b"::error file=service/Dockerfile,line=2," in done.stdout


def test_pyproject_does_as_well(envcheck, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.envcheck]\ndockerfiles = ["Dockerfile"]\n')
    (tmp_path / "Dockerfile").write_text(WRONG_TAG)
    assert envcheck("check").returncode == 1


def test_no_gpu_where_one_is_required_is_an_error(check):
    none = snapshot(gpus=known((), "PCI"), driver=known(None, "/proc"))
    done = check('targets = ["node.json"]\n[require.gpu]\ncount = 1\n', {"node.json": none})
    assert done.returncode == 1
    assert "GPU" in done.stdout.decode()


# ---- convert


def test_a_saved_gate_is_converted_to_every_format(check, envcheck, tmp_path):
    from envcheck.cli.convert import read_judged

    assert check(BASE, {"Dockerfile": WRONG_TAG}, "--format=json:gate.json").returncode == 1
    for name in FORMATS:
        direct = check(BASE, {"Dockerfile": WRONG_TAG}, "--format", f"{name}:direct")
        assert direct.returncode == 1
        done = envcheck("convert", "gate.json", "--format", f"{name}:converted")
        assert done.returncode == 0, done.stderr
        if name == "json":
            assert read_judged(str(tmp_path / "converted")) == read_judged(str(tmp_path / "direct"))
        else:
            assert (tmp_path / "converted").read_text() == (tmp_path / "direct").read_text(), name


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense", '{"cells": []}', '{"schema": 1}'])
def test_what_is_no_report_is_not_converted(envcheck, tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    done = envcheck("convert", "x.json", "--format", "sarif")
    assert done.returncode == 2
    assert b"x.json" in done.stderr


def test_a_report_with_a_forged_rule_is_not_converted(check, envcheck, tmp_path):
    check(BASE, {"Dockerfile": WRONG_TAG}, "--format=json:gate.json")
    text = (tmp_path / "gate.json").read_text().replace('"FIL104"', '"](javascript:1)"')
    (tmp_path / "gate.json").write_text(text)
    assert envcheck("convert", "gate.json", "--format", "markdown").returncode == 2


def test_a_format_that_is_none_is_named_before_anything_is_read(envcheck):
    done = envcheck("convert", "missing.json", "--format", "sarfi")
    assert done.returncode == 2
    assert b"'sarif'" in done.stderr


# ---- doctor: the same formats, the same codes


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("text", "code"), [(GOOD, 0), (WRONG_TAG, 1)])
def test_doctor_exits_by_the_finding_not_by_the_format(envcheck, tmp_path, name, text, code):
    (tmp_path / "Dockerfile").write_text(text)
    assert envcheck("doctor", "Dockerfile", "--on", "aws:g5.xlarge", "--format", name).returncode == code
    assert envcheck("doctor", "missing.txt", "--format", name).returncode == 2


def test_a_doctors_report_is_valid_sarif_anchored_to_its_file(envcheck, tmp_path, root):
    import jsonschema

    (tmp_path / "Dockerfile").write_text(WRONG_TAG)
    log = json.loads(envcheck("doctor", "Dockerfile", "--on", "aws:g5.xlarge", "--format", "sarif").stdout)
    jsonschema.Draft4Validator(json.loads((root / "tests" / "data" / "sarif-2.1.0.json").read_text())).validate(log)
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "Dockerfile"
    assert place["region"]["startLine"] == 2


@given(st.recursive(st.none() | st.integers() | st.text(max_size=8), lambda x: st.lists(x, max_size=3), max_leaves=6))
def test_no_json_value_in_a_reports_place_breaks_convert(tmp_path_factory, value):
    from envcheck.cli.convert import read_judged
    from envcheck.errors import UsageError

    path = tmp_path_factory.mktemp("c") / "x.json"
    for text in (
        json.dumps(value),
        json.dumps({"cells": value}),
        json.dumps({"schema": 1, "tool": value, "snapshot": value, "findings": value, "skipped": [], "summary": {}}),
    ):
        path.write_text(text)
        with pytest.raises(UsageError):
            read_judged(str(path))
