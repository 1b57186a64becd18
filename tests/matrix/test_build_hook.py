"""The build hook puts a compiled matrix into wheels, and never stops an installation."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from envcheck.matrix.reader import Reader


class Application:
    """What the hook needs of hatchling's."""

    def __init__(self):
        self.warnings = []

    def display_warning(self, text):
        self.warnings.append(text)


@pytest.fixture
def hook(root):
    """Make the hook over a checkout: `hook(folder)`."""
    spec = importlib.util.spec_from_file_location("hatch_build_of_envcheck", root / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def make(folder):
        return module.CompileMatrix(str(folder), {}, None, None, str(folder), "wheel", Application())

    return make


@pytest.fixture
def checkout(root, tmp_path):
    """A checkout with the real matrix."""
    shutil.copytree(root / "matrices", tmp_path / "checkout" / "matrices")
    return tmp_path / "checkout"


def test_a_wheel_gets_a_compiled_copy_of_every_file(hook, checkout):
    made = hook(checkout)
    data = {"force_include": {}}
    made.initialize("standard", data)
    written = {target: Path(source) for source, target in data["force_include"].items()}
    names = {path.relative_to(checkout / "matrices").with_suffix("").as_posix() for path in checkout.rglob("*.toml")}
    assert set(written) == {f"envcheck/data/matrices/{name}.msgpack" for name in names}
    torch = written["envcheck/data/matrices/builds/torch.msgpack"]
    compiled = Reader(checkout / "matrices", torch.parents[1])
    assert compiled.read("builds", "torch") == Reader(checkout / "matrices", None).read("builds", "torch")
    made.finalize("standard", data, "")
    assert not torch.exists()


def test_an_editable_install_compiles_into_the_checkout(hook, checkout):
    data = {"force_include": {}}
    hook(checkout).initialize("editable", data)
    assert data["force_include"] == {}
    assert (checkout / "envcheck" / "data" / "matrices" / "cuda.msgpack").is_file()


def test_a_checkout_that_cannot_be_written_is_installed_all_the_same(hook, checkout):
    (checkout / "envcheck").write_text("a file where the folder would go")
    made = hook(checkout)
    made.initialize("editable", {"force_include": {}})
    assert made.app.warnings
