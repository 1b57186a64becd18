"""IMG and FIL rules and the start of images: each fires, passes and skips; facts as the readers give them."""

import pytest

from envcheck.expected import complete
from envcheck.inspection import Description
from envcheck.machines import describe_machine, pair
from envcheck.model.fact import known
from envcheck.model.image import ImageConfig
from envcheck.model.machine import ContainerToolkit, Machine
from envcheck.readers.files import FileOptions, read_file
from envcheck.readers.image_config import read_image
from envcheck.rules import files, image
from envcheck.rules.engine import judge
from envcheck.rules.image_start import requirement_problems
from envcheck.rules.rule import rule

CUDA_124 = (
    "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=nvidia,driver>=470,driver<471 "
    "brand=tesla,driver>=535,driver<536 brand=nvidia,driver>=535,driver<536"
)


@rule("TST101", "start", "error", cause="container-image-needs-newer-driver")
def start_rule(snap, matrix):
    """What the container family's rule says."""
    yield from requirement_problems(snap, matrix)


RULES = (*image.RULES, *files.RULES, start_rule)


def an_image(arch="amd64", reference="nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04", **env):
    env = {"CUDA_VERSION": "12.4.1", "NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_REQUIRE_CUDA": CUDA_124, **env}
    return read_image(
        ImageConfig(reference, "registry test", arch=arch, env={k: v for k, v in env.items() if v is not None})
    )


def a_file(text, name="Dockerfile", kind="dockerfile", **options):
    return read_file(text, name=name, kind=kind, options=FileOptions(**options))[0]


def on(snap, matrix, toolkit=None, **said):
    machine = describe_machine(Description(**said), matrix, lambda: None) if said else Machine()
    if toolkit is not None:
        machine = Machine(
            **{**{f: getattr(machine, f) for f in machine.__struct_fields__}, "toolkit": known(toolkit, "t")}
        )
    return complete(pair(snap, machine, "a machine"), matrix)


def found(snap, matrix, **rest):
    return judge(snap, matrix, RULES)


def ids(outcome):
    return [finding.rule for finding in outcome.findings]


def only(outcome, name):
    return next(finding for finding in outcome.findings if finding.rule == name)


def skipped(outcome):
    return {skip.rule: skip.reason for skip in outcome.skipped}


# ---- the start of an image


def test_a_driver_that_meets_the_requirement_starts_it(matrix):
    assert "TST101" not in ids(found(on(an_image(), matrix, gpu="A100 80GB", driver="550.54.14"), matrix))


def test_an_exempt_branch_starts_it_on_a_datacentre_gpu(matrix):
    assert "TST101" not in ids(found(on(an_image(), matrix, gpu="A100 80GB", driver="535.183.01"), matrix))


@pytest.mark.parametrize(
    ("toolkit", "severity"),
    [
        (ContainerToolkit(version="1.17.8"), "error"),
        (ContainerToolkit(version="1.18.1"), "note"),
        (ContainerToolkit(version="1.18.1", mode="legacy"), "error"),
        (ContainerToolkit(version="1.17.0", mode="cdi"), "note"),
        (None, "warning"),
    ],
)
def test_stricter_than_needed_is_as_bad_as_the_toolkit_makes_it(matrix, toolkit, severity):
    outcome = found(on(an_image(), matrix, toolkit, gpu="RTX 4090", driver="535.183.01"), matrix)
    finding = only(outcome, "TST101")
    assert finding.severity == severity
    assert "stricter than needed" in finding.message
    assert "NVIDIA_DISABLE_REQUIRE=1" in finding.fix[0]


def test_a_driver_that_cannot_run_it_is_refused_at_start(matrix):
    outcome = found(
        on(an_image(), matrix, ContainerToolkit(version="1.17.8"), gpu="RTX 3090", driver="470.82.01"), matrix
    )
    finding = only(outcome, "TST101")
    assert finding.severity == "error"
    assert "refused at start" in finding.message
    assert "550.54" in finding.fix[0]


def test_under_just_in_time_cdi_it_fails_later(matrix):
    outcome = found(
        on(an_image(), matrix, ContainerToolkit(version="1.19.0"), gpu="RTX 3090", driver="470.82.01"), matrix
    )
    assert "starts, and fails at its first CUDA call" in only(outcome, "TST101").message


def test_a_disabled_check_refuses_nothing_and_is_noted(matrix):
    snap = on(an_image(NVIDIA_DISABLE_REQUIRE="1"), matrix, gpu="RTX 3090", driver="470.82.01")
    outcome = found(snap, matrix)
    assert "TST101" not in ids(outcome)
    assert only(outcome, "IMG106").severity == "note"


def test_an_unknown_driver_skips_the_start(matrix):
    outcome = found(on(an_image(), matrix, on="aws:p4d.24xlarge"), matrix)
    assert "TST101" not in ids(outcome)
    assert "driver" in skipped(outcome)["TST101"]


def test_a_factor_that_the_toolkit_refuses_is_named(matrix):
    snap = on(an_image(NVIDIA_REQUIRE_CUDA="cuda>=12.4 nonsense"), matrix, gpu="A100 80GB", driver="470.82.01")
    assert "nonsense" in only(found(snap, matrix), "TST101").message


def test_forward_compatibility_is_a_note_on_a_datacentre_gpu_only(matrix):
    snap = an_image(CUDA_VERSION="13.0.1", CUDA_DRIVER_VERSION="580.82.07")
    assert only(found(on(snap, matrix, gpu="A100 80GB", driver="535.183.01"), matrix), "IMG107").severity == "note"
    assert "IMG107" not in ids(found(on(snap, matrix, gpu="RTX 3090", driver="535.183.01"), matrix))


@pytest.mark.parametrize(
    ("gpu", "driver", "fires"),
    [
        ("A100 80GB", "470.57.02", False),
        ("A100 80GB", "470", False),
        ("A100 80GB", "470.42.01", True),
        ("A100 80GB", "510.47.03", True),
        ("RTX 3090", "470.57.02", True),
    ],
)
def test_the_datacentre_branches_that_an_image_lists(matrix, gpu, driver, fires):
    from envcheck.rules.driver import driver_too_old_for_cuda

    snap = on(a_file("FROM nvcr.io/nvidia/pytorch:24.05-py3\n"), matrix, gpu=gpu, driver=driver)
    outcome = judge(snap, matrix, (driver_too_old_for_cuda,))
    assert (ids(outcome) == ["DRV101"]) is fires
    if fires:
        assert "use the image nvcr.io/nvidia/pytorch:" in outcome.findings[0].fix[0]


# ---- IMG


def test_an_arm_image_on_x86(matrix):
    outcome = found(on(an_image("arm64"), matrix, on="aws:p4d.24xlarge", driver="550"), matrix)
    assert only(outcome, "IMG101").severity == "error"
    assert "--platform linux/amd64" in only(outcome, "IMG101").fix[0]
    assert "IMG101" not in ids(found(on(an_image("amd64"), matrix, on="aws:p4d.24xlarge", driver="550"), matrix))
    assert "architecture" in skipped(found(on(an_image("arm64"), matrix, gpu="A100 80GB"), matrix))["IMG101"]


def test_an_arm_image_on_an_arm_instance(matrix):
    assert "IMG101" not in ids(found(on(an_image("arm64"), matrix, on="aws:g5g.xlarge", driver="550"), matrix))


def test_end_of_life_by_variable_and_by_the_matrix(matrix):
    marked = an_image(NVIDIA_CUDA_END_OF_LIFE="1")
    assert "IMG102" in ids(found(on(marked, matrix), matrix))
    old = next(row.tag for row in matrix.cuda_images if "EOL" in row.status)
    new = next(row.tag for row in matrix.cuda_images if row.status == "supported")
    assert "IMG102" in ids(found(on(a_file(f"FROM nvidia/cuda:{old}\n"), matrix), matrix))
    assert "IMG102" not in ids(found(on(a_file(f"FROM nvidia/cuda:{new}\n"), matrix), matrix))


def test_an_image_older_than_the_gpu(matrix):
    old = an_image(CUDA_VERSION="11.4.3")
    outcome = found(on(old, matrix, gpu="H100 80GB", driver="550"), matrix)
    assert "11.8" in only(outcome, "IMG103").fix[0]
    assert "IMG103" not in ids(found(on(old, matrix, gpu="A100 80GB", driver="550"), matrix))
    assert "GPUs" in skipped(found(on(old, matrix, driver="550"), matrix))["IMG103"]


@pytest.mark.parametrize(
    ("value", "rules"),
    [("utility", ["compute"]), ("compute", ["utility"]), ("compute,utility", []), ("all", []), (None, [])],
)
def test_driver_capabilities(matrix, value, rules):
    outcome = found(on(an_image(NVIDIA_DRIVER_CAPABILITIES=value), matrix), matrix)
    assert [f.subject for f in outcome.findings if f.rule == "IMG104"] == rules


def test_hidden_gpus_in_a_compose_file(matrix):
    text = "services:\n  a:\n    image: nvidia/cuda:12.4.1-base-ubuntu22.04\n    gpus: all\n    environment: {V}\n"
    hidden = a_file(text.replace("V", "NVIDIA_VISIBLE_DEVICES: void"), "compose.yaml", "compose")
    finding = only(found(on(hidden, matrix), matrix), "IMG105")
    assert finding.path == "compose.yaml"
    shown = a_file(text.replace("V", "NVIDIA_VISIBLE_DEVICES: all"), "compose.yaml", "compose")
    assert "IMG105" not in ids(found(on(shown, matrix), matrix))


def test_a_machine_whose_driver_is_not_told(matrix):
    outcome = found(on(an_image(), matrix, on="aws:p4d.24xlarge"), matrix)
    assert "525.60.13" in only(outcome, "IMG108").message
    assert "IMG108" not in ids(found(on(an_image(), matrix, on="aws:p4d.24xlarge", driver="550"), matrix))
    listed = on(a_file("FROM nvcr.io/nvidia/pytorch:24.05-py3\n"), matrix, on="aws:p4d.24xlarge")
    assert "470.57+" in only(found(listed, matrix), "IMG108").message
    plain = on(a_file("FROM python:3.11\nRUN pip install flask==3.0.0\n"), matrix, on="aws:p4d.24xlarge")
    assert "IMG108" not in ids(found(plain, matrix))


# ---- FIL

NGC = "FROM nvcr.io/nvidia/pytorch:24.05-py3\n"


@pytest.mark.parametrize(
    ("line", "fires"),
    [
        ("pip install torch==2.4.0", True),
        ("pip install torch>=2.4", True),
        ("pip install torch", False),
        ("pip install 'torch>=2.1'", False),
        ("pip install torchvision==0.19.0", True),
        ("pip install --no-deps torchvision==0.19.0", False),
        ("pip install -c /etc/pip/constraint.txt torch==2.4.0", False),
        ("pip install transformers==4.40.0", False),
    ],
)
def test_what_replaces_the_vendors_build(matrix, line, fires):
    outcome = found(on(a_file(f"{NGC}RUN {line}\n"), matrix), matrix)
    assert ("FIL101" in ids(outcome)) is fires
    if fires:
        assert (only(outcome, "FIL101").path, only(outcome, "FIL101").line) == ("Dockerfile", 2)


def test_on_a_public_base_nothing_is_replaced(matrix):
    assert "FIL101" not in ids(found(on(a_file("FROM python:3.11\nRUN pip install torch==2.4.0\n"), matrix), matrix))


@pytest.mark.parametrize(
    ("package", "fires"),
    [
        ("nvidia-driver-535", True),
        ("cuda-drivers", True),
        ("cuda", True),
        ("cuda-12-4", True),
        ("libcuda1", True),
        ("cuda-toolkit-12-4", False),
        ("cuda-cudart-12-4", False),
        ("libnvidia-container-tools", False),
        ("python3", False),
    ],
)
def test_a_driver_in_the_image(matrix, package, fires):
    snap = a_file(f"FROM ubuntu:22.04\nRUN apt-get update && apt-get install -y \\\n  git \\\n  {package}\n")
    outcome = found(on(snap, matrix), matrix)
    assert ("FIL102" in ids(outcome)) is fires
    if fires:
        assert only(outcome, "FIL102").line == 4


def test_a_toolkit_twice(matrix):
    devel = "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nRUN apt-get install -y {}\n"
    runtime = "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nRUN apt-get install -y {}\n"
    assert only(found(on(a_file(devel.format("nvidia-cuda-toolkit")), matrix), matrix), "FIL103").severity == "warning"
    assert only(found(on(a_file(devel.format("cuda-toolkit-12-4")), matrix), matrix), "FIL103").severity == "note"
    assert "FIL103" not in ids(found(on(a_file(runtime.format("cuda-toolkit-12-4")), matrix), matrix))
    assert "FIL103" not in ids(
        found(on(a_file("FROM ubuntu:22.04\nRUN apt-get install -y cuda-toolkit-12-4\n"), matrix), matrix)
    )


def test_a_variant_that_was_never_built(matrix):
    text = "--index-url https://download.example/whl/cu124\ntorch==2.1.0\n"
    outcome = found(on(a_file(text, "requirements.txt", "requirements"), matrix), matrix)
    finding = only(outcome, "FIL104")
    assert (finding.path, finding.line) == ("requirements.txt", 2)
    assert "cu121" in finding.fix[0]
    good = a_file(text.replace("cu124", "cu121"), "requirements.txt", "requirements")
    assert "FIL104" not in ids(found(on(good, matrix), matrix))


def test_a_local_version_that_was_never_built(matrix):
    snap = a_file("torch==2.1.0+cu124\n", "requirements.txt", "requirements")
    assert "FIL104" in ids(found(on(snap, matrix), matrix))


def test_devel_where_nothing_compiles(matrix):
    devel = "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nRUN pip install torch==2.4.0\n"
    assert "runtime" in only(found(on(a_file(devel), matrix), matrix), "FIL105").fix[0]
    assert "FIL105" not in ids(found(on(a_file(f"{devel}RUN nvcc x.cu\n"), matrix), matrix))
    assert "FIL105" not in ids(found(on(a_file(f"{devel}RUN pip install git+https://x/y\n"), matrix), matrix))
    assert "FIL105" not in ids(found(on(a_file(devel.replace("devel", "runtime")), matrix), matrix))


def test_no_rule_crashes_on_an_empty_snapshot(matrix):
    from envcheck.model.snapshot import Snapshot

    assert judge(Snapshot(), matrix, RULES).crashed == ()


# ---- what a file asks of the engine

SERVICE = "services:\n  train:\n    image: {image}\n{more}"


def a_service(more="", image="nvcr.io/nvidia/pytorch:24.05-py3"):
    return a_file(SERVICE.format(image=image, more=more), "compose.yaml", "compose")


def asked(snap, matrix):
    from envcheck.rules.gpu_request import not_requested, small_shm

    return not_requested(on(snap, matrix)), small_shm(on(snap, matrix))


def test_a_service_without_a_reservation(matrix):
    gpus, _ = asked(a_service(), matrix)
    assert gpus.severity == "warning"
    assert gpus.evidence[0].source == "compose.yaml:2"
    assert "gpus: all" in gpus.fix[0]


@pytest.mark.parametrize("more", ["    gpus: all\n", "    runtime: nvidia\n"])
def test_a_service_that_asks(matrix, more):
    assert asked(a_service(more), matrix)[0] is None


def test_a_service_that_is_not_made_for_gpus(matrix):
    assert asked(a_service(image="python:3.11"), matrix)[0] is None


def test_shared_memory_of_a_service(matrix):
    gpus = "    gpus: all\n"
    assert asked(a_service(gpus), matrix)[1].fix[0].startswith("add to the service")
    assert asked(a_service(f"{gpus}    ipc: host\n"), matrix)[1] is None
    assert asked(a_service(f"{gpus}    shm_size: 8gb\n"), matrix)[1] is None
    assert asked(a_service(f"{gpus}    shm_size: 64m\n"), matrix)[1] is not None
    assert asked(a_service(), matrix)[1] is None


def test_the_default_index_on_arm_is_told_as_a_cpu_build(matrix):
    from envcheck.rules.framework import cpu_only_build

    machine = {"gpu": "GH200", "driver": "560.35.03", "arch": "arm64"}

    def rules(line):
        text = f"FROM --platform=linux/arm64 python:3.11\nRUN pip install {line}\n"
        return ids(judge(on(a_file(text), matrix, **machine), matrix, (cpu_only_build,)))

    assert rules("torch==2.4.0") == ["FRM101"]
    assert rules("torch==2.4.0 --index-url https://x/whl/cu124") == []
    assert rules("torch==2.4.0 --index-url https://x/whl/cpu") == []  # that is what was asked for
