"""A proof's child really runs; only the framework in it is a stand-in."""

import msgspec
import pytest

from envcheck.model.fact import known
from envcheck.model.snapshot import Snapshot
from envcheck.model.stack import Package, Python
from envcheck.probes.proof import prove, read_proof
from envcheck.probes.runner import Run
from tests.unit.probes.elf_parts import Environment


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path / "env")


def proof(environment, torch: str, *, deadline: float = 30, **env: str):
    (environment.site / "torch.py").write_text(torch)
    stack = msgspec.structs.replace(
        Snapshot().stack,
        python=known(Python(executable=str(environment.python)), "test"),
        packages=known((Package("torch"),), "test"),
    )
    env = {"PATH": "/usr/bin:/bin", **env}
    return prove(msgspec.structs.replace(Snapshot(), stack=stack), env=env, deadline=deadline)


def states(found):
    return [(check.name, check.state) for check in found.checks]


def test_an_import_that_fails_is_named_in_the_frameworks_own_words(environment):
    found = proof(environment, "raise ImportError('libcudart.so.13: cannot open shared object file')")
    assert states(found) == [("import", "failed")]
    assert "libcudart.so.13: cannot open shared object file" in found.log
    assert not found.passed


def test_a_child_that_crashes_tells_where_it_was(environment):
    found = proof(environment, "import ctypes; ctypes.string_at(0)")
    assert states(found) == [("import", "crashed")]
    assert "SIGSEGV" in found.outcome


def test_a_child_that_hangs_is_ended_by_the_deadline(environment):
    found = proof(environment, "import time; time.sleep(60)", deadline=1.0)
    assert states(found) == [("import", "hung")]


def test_a_framework_without_a_gpu_proves_nothing(environment):
    torch = "class cuda:\n    is_available = staticmethod(lambda: False)\n"
    torch += "def zeros(*a, **k):\n    raise RuntimeError('no CUDA')\n"
    found = proof(environment, torch)
    assert states(found) == [("import", "ok"), ("cuda", "failed")]
    assert not found.passed


def test_what_the_process_had_loaded_is_told(environment):
    found = proof(environment, "import ctypes; ctypes.CDLL('libstdc++.so.6')\nclass cuda: pass\n")
    assert any("libstdc++.so.6" in path for path in found.loaded)


def test_output_of_the_framework_is_kept_beside_the_results(environment):
    found = proof(environment, "print('{not json'); print('hello'); raise SystemExit(3)")
    assert "hello" in found.log
    assert states(found) == [("import", "failed")]


@pytest.mark.parametrize(
    "line", [b'{"check": 1}', b'{"check": {"state": "fine"}}', b'{"begin": []}', b'{"loaded": [1]}', b"{" * 9000]
)
def test_output_that_is_not_ours_is_no_result(line):
    assert read_proof(Run(("python",), rc=0, out=line + b"\n"), "python").checks == ()


def test_nothing_is_run_where_no_framework_is_installed():
    assert prove(Snapshot(), env={}) is None
