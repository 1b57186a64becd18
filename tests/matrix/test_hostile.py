"""Whatever is asked, a look-up answers or refuses; it never fails."""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from envcheck.errors import EnvcheckError
from envcheck.matrix.answer import Answer
from envcheck.matrix.dump import TOPICS, answer
from envcheck.matrix.reader import read_toml
from envcheck.matrix.subjects import SUBJECTS

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WORDS = st.one_of(
    st.text(max_size=40),
    st.from_regex(r"[0-9]{1,5}(\.[0-9]{1,4}){0,4}([ab+~.-][a-z0-9.]{0,8})?", fullmatch=True),
    st.sampled_from(["12.1", "535", "2.5.1+cu124", "RTX 4090", "sm_90a", "cu121", "aws:p4d.24xlarge", "pytorch:23.07"]),
)


@QUICK
@given(WORDS, WORDS)
@example("1e9", "v1!2.3")
@example("535\n", "12.1\n")
@example("sm_9", "99999999999999999999.1")
def test_every_look_up_takes_any_text(matrix, left, right):
    matrix.find_gpu(left)
    matrix.find_gpu_by_pci(left)
    matrix.near_gpus(left)
    matrix.capability(left)
    matrix.compiles_for(left, right)
    matrix.kernels(["8.0", "9.0a+PTX"], "9.0")
    matrix.cuda_release(left)
    matrix.newest_patch(left)
    matrix.driver_floor(left)
    matrix.minor_floor(left, right)
    matrix.driver_cuda(left)
    matrix.runs_cuda(left, right)
    matrix.branch(left)
    matrix.branch(left, "windows")
    matrix.forward_compat(left, right)
    matrix.host_compiler(left)
    matrix.open_vulnerabilities("runc", left)
    matrix.builds_of(left, right)
    matrix.builds_of("torch", left, cuda=right)
    matrix.build("torch", left, right)
    matrix.build("torch", left)
    matrix.companions_of("torchvision", left)
    matrix.companion_for("torchvision", left)
    matrix.pins_of("torch", left)
    matrix.supports_python(matrix.build("torch", "2.5.1"), left)
    matrix.newest_build("torch", version=left, python=right)
    matrix.image(left)
    matrix.cuda_image(left)
    matrix.framework_images(left)
    matrix.instance(left)
    matrix.meaning(left)


@QUICK
@given(st.sampled_from([*TOPICS, "torch", "torchvision", "jax"]), st.lists(WORDS, max_size=3))
def test_every_question_is_answered_or_refused(matrix, topic, words):
    try:
        found = answer(matrix, topic, words)
    except EnvcheckError as refused:
        found = refused
    assert isinstance(found, Answer) or found.exit_code == 2


@QUICK
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
@example(b"[[build]]\npackage = 3")
@example(b"build = 3")
@example(b"build = [3]")
def test_any_bytes_in_a_file_give_rows_or_problems(data):
    rows, problems = read_toml(data, SUBJECTS["builds"], "builds/x.toml")
    assert problems or rows == () or rows
    assert all(problem.startswith("builds/x.toml") for problem in problems)
