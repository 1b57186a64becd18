from envcheck.model.fact import known, unknown
from envcheck.model.finding import Evidence, Finding, Report, Skip, Summary, Tool
from envcheck.model.machine import Driver, Gpu, Machine
from envcheck.model.snapshot import Origin, Snapshot
from envcheck.model.stack import Package, Python, Stack
from envcheck.report import RenderOptions, render

GPU = Gpu("NVIDIA GeForce RTX 5090", capability="12.0", memory_mib=32607)
SNAP = Snapshot(
    origin=Origin("host"),
    machine=Machine(
        gpus=known((GPU, GPU), "NVML"),
        driver=known(Driver("570.86.10", "open", "12.8"), "NVML"),
    ),
    stack=Stack(
        python=known(Python("3.11.9", kind="venv"), "pyvenv.cfg"),
        packages=known((Package("numpy", "2.1.3"), Package("torch", "2.5.1+cu124", "cu124")), "site-packages"),
    ),
)
FINDING = Finding(
    rule="GPU201",
    slug="no-kernels-for-gpu",
    cause="gpu-too-new-for-build",
    severity="error",
    subject="GPU 0",
    message="torch 2.5.1+cu124 has no kernels for the RTX 5090",
    evidence=(
        Evidence("kernels", "sm_50 sm_90, no PTX", "libtorch_cuda.so", "found"),
        Evidence("GPU", "sm_120", "NVML", "needed"),
    ),
    fix=("pip install torch==2.7.1", "any torch >= 2.7 built for CUDA 12.8"),
    url="https://example.org#gpu201",
)
NOTE = Finding(
    "DRV110",
    "toolkit-differs",
    "nvcc-torch-cuda-mismatch",
    "note",
    "",
    "nvcc 12.1 differs from torch's CUDA 12.4",
    (),
    (),
    "u",
)


def report(*findings, snap=SNAP, skipped=(), verdict="findings"):
    counts = [sum(f.severity == s for f in findings) for s in ("error", "warning", "note")]
    return Report(1, Tool("envcheck", "0"), snap, findings, skipped, Summary(verdict, *counts, len(skipped), 41))


def text(*args, options=None, **kwargs):
    return render(report(*args, **kwargs), "text", options or RenderOptions())


def test_the_verdict_comes_first_then_machine_and_stack_then_the_cause():
    lines = text(
        FINDING, NOTE, skipped=(Skip("CTR101", "Docker isn't installed"),), options=RenderOptions(width=120)
    ).splitlines()
    assert lines[0].startswith("✗ This environment will not run on this machine: 1 error, 1 note")
    assert (
        "2 × NVIDIA GeForce RTX 5090 (sm_120, 32 GB) · driver 570.86.10, open modules (runs CUDA up to 12.8)"
        in lines[2]
    )
    assert "Python 3.11.9 (venv) · torch 2.5.1+cu124 · numpy 2.1.3" in lines[3]
    assert lines[5].startswith("✗ GPU201  torch 2.5.1+cu124 has no kernels")
    assert lines[-1] == "Skipped 1 rule: Docker isn't installed (1) · -v for all · envcheck explain GPU201"


def test_evidence_says_found_and_needed_each_with_its_source():
    shown = text(FINDING)
    assert "found    sm_50 sm_90, no PTX   libtorch_cuda.so" in shown
    assert "needed   sm_120   NVML" in shown
    assert "fix      pip install torch==2.7.1" in shown
    assert "or       any torch >= 2.7" in shown


def test_a_healthy_machine_is_said_to_be_healthy_in_one_line():
    assert text(verdict="ok").splitlines()[0].startswith("✓ Nothing wrong")


def test_what_could_not_be_measured_is_named_and_not_called_right():
    snap = Snapshot(origin=Origin("host"), machine=Machine(gpus=unknown("NVML did not answer in 10 s")))
    shown = text(snap=snap, skipped=(Skip("GPU201", "NVML did not answer in 10 s"),), verdict="inconclusive")
    assert shown.startswith("? Inconclusive: NVML did not answer in 10 s")
    assert "✓" not in shown


def test_escapes_in_a_device_name_do_not_reach_the_terminal():
    evil = Snapshot(origin=Origin("host"), machine=Machine(gpus=known((Gpu("RTX\x1b[31m\x07 4090\u202e"),), "NVML")))
    shown = text(snap=evil, verdict="ok")
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown


def test_verbose_lists_every_skipped_rule():
    skipped = tuple(Skip(f"CTR10{n}", f"reason {n}") for n in range(6))
    assert "reason 5" not in text(skipped=skipped, verdict="ok")
    assert "reason 5: CTR105" in text(skipped=skipped, verdict="ok", options=RenderOptions(verbose=True))


def test_the_same_report_gives_the_same_text():
    assert len({text(FINDING, NOTE) for _ in range(20)}) == 1


def test_a_narrow_terminal_wraps_and_loses_nothing():
    wide, narrow = text(FINDING), text(FINDING, options=RenderOptions(width=60))
    assert max(map(len, narrow.splitlines())) <= 95
    for word in ("found", "needed", "sm_120", "torch==2.7.1"):
        assert word in wide
        assert word in narrow
