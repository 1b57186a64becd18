"""Reading matrices/: faults are named at once, and a compiled copy counts only beside the TOML it was made of."""

import shutil
import subprocess
import sys

import pytest

from envcheck.errors import MatrixError
from envcheck.matrix.check import check
from envcheck.matrix.compile import compile_matrix
from envcheck.matrix.reader import Reader

GOOD = '[[compiler]]\ncuda = "12.1"\ngcc_max = 12\nsource = "s"\nchecked = "2026-11"\n'


@pytest.fixture
def folder(tmp_path):
    """A matrix of one subject."""
    place = tmp_path / "matrices"
    place.mkdir()
    (place / "host_compilers.toml").write_text(GOOD)
    return place


@pytest.fixture
def copy(tmp_path, root):
    """A copy of the real matrix, to break."""
    return shutil.copytree(root / "matrices", tmp_path / "copy")


def test_rows_are_typed(folder):
    (row,) = Reader(folder, None).read("host_compilers")
    assert (row.cuda, row.gcc_max, row.clang_max) == ("12.1", 12, None)


def test_a_file_that_is_not_toml_is_named(folder):
    (folder / "host_compilers.toml").write_text("[[compiler]\n")
    with pytest.raises(MatrixError, match=r"host_compilers\.toml: not TOML: .*line 1"):
        Reader(folder, None).read("host_compilers")


def test_every_malformed_row_is_named_with_its_key(folder):
    (folder / "host_compilers.toml").write_text(
        GOOD.replace("12\n", '"twelve"\n') + GOOD.replace("gcc_max", "gcc_maximum") + GOOD.replace('source = "s"\n', "")
    )
    with pytest.raises(MatrixError) as broken:
        Reader(folder, None).read("host_compilers")
    first, second, third = broken.value.problems
    assert "row 1 (cuda = 12.1)" in first
    assert "$.gcc_max" in first
    assert "row 2" in second
    assert "gcc_maximum" in second
    assert "row 3" in third
    assert "`source`" in third


def test_a_table_that_no_subject_has_is_named(folder):
    (folder / "host_compilers.toml").write_text(GOOD + "[[compilers]]\ncuda = '1'\n")
    with pytest.raises(MatrixError, match=r"unknown table \[compilers\]"):
        Reader(folder, None).read("host_compilers")


def test_a_missing_file_is_named(folder):
    with pytest.raises(MatrixError, match=r"cuda\.toml: No such file"):
        Reader(folder, None).read("cuda")


def test_check_reports_what_is_wrong_in_several_files_at_once(copy):
    (copy / "cuda.toml").write_text("oh = [")
    gpus = copy / "gpus.toml"
    gpus.write_text(gpus.read_text().replace("memory_gb = 24", 'memory_gb = "lots"', 1))
    (copy / "surprise.toml").write_text("")
    faults = check(Reader(copy, None))
    by_file = {fault.file: fault for fault in faults}
    assert "not TOML" in by_file["cuda.toml"].what
    assert by_file["gpus.toml"].key == "memory_gb"
    assert "row" in by_file["gpus.toml"].row
    assert "no subject" in by_file["surprise.toml"].what


def test_a_compiled_copy_gives_the_same_rows(root, tmp_path):
    compile_matrix(root / "matrices", tmp_path)
    plain, fast = Reader(root / "matrices", None), Reader(root / "matrices", tmp_path)
    for subject, part in (
        ("cuda", ""),
        ("gpus", ""),
        ("builds", "torch"),
        ("known_bad", ""),
        ("framework_images", "nemo"),
    ):
        assert fast.read(subject, part) == plain.read(subject, part)


def test_a_stale_copy_is_not_used(folder, tmp_path):
    compile_matrix(folder, tmp_path / "compiled")
    (folder / "host_compilers.toml").write_text(GOOD.replace("gcc_max = 12", "gcc_max = 13"))
    (row,) = Reader(folder, tmp_path / "compiled").read("host_compilers")
    assert row.gcc_max == 13


@pytest.mark.parametrize("damage", [b"", b"\x00", b"\x92\x93\x01", b"not msgpack at all"])
def test_a_damaged_copy_is_not_used(folder, tmp_path, damage):
    (copy,) = compile_matrix(folder, tmp_path / "compiled")
    copy.write_bytes(damage)
    assert len(Reader(folder, tmp_path / "compiled").read("host_compilers")) == 1


def test_a_copy_of_an_older_row_shape_is_not_used(folder, tmp_path):
    import msgspec

    from envcheck.matrix.reader import stamp

    (copy,) = compile_matrix(folder, tmp_path / "compiled")
    body = [{"cuda": "12.1", "gone": 1, "source": "s", "checked": "2026-11"}]
    copy.write_bytes(msgspec.msgpack.encode((stamp(GOOD.encode()), body)))
    assert Reader(folder, tmp_path / "compiled").read("host_compilers")[0].gcc_max == 12


def test_a_broken_matrix_is_not_compiled(folder, tmp_path):
    (folder / "host_compilers.toml").write_text("[[compiler]]\n")
    with pytest.raises(MatrixError, match="host_compilers"):
        compile_matrix(folder, tmp_path / "compiled")


def test_a_run_over_the_compiled_matrix_needs_no_toml_parser(root, tmp_path):
    compile_matrix(root / "matrices", tmp_path)
    code = (
        "import sys, pathlib\n"
        "from envcheck.matrix.matrix import Matrix\n"
        "from envcheck.matrix.reader import Reader\n"
        f"m = Matrix(Reader(pathlib.Path({str(root / 'matrices')!r}), pathlib.Path({str(tmp_path)!r})))\n"
        "assert m.find_gpu('RTX 4090') and m.driver_cuda('535.54.03') and m.build('torch', '2.5.1') and m.causes\n"
        "assert not {'tomllib', 'tomli', 'tomlkit', 'rich', 'click'} & set(sys.modules), sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env={"PYTHONPATH": str(root)})
