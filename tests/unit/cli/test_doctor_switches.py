"""--run and --share of `envcheck doctor`, as a user meets them."""

PASTE = (
    b'File "/home/alicecanary/project/train.py", line 3, in <module>\n'
    b"OSError: /home/alicecanary/env/lib/python3.10/site-packages/nvidia/cublas/lib/libcublas.so.11: "
    b"undefined symbol: cublasLtHSHMatmulAlgoInit, version libcublasLt.so.11\n"
)


def test_a_shared_report_names_nobody(envcheck):
    plain = envcheck("doctor", "-", "--format", "json", stdin=PASTE)
    shared = envcheck("doctor", "-", "--share", "--format", "json", stdin=PASTE)
    assert b"cuda-lib-shadowed" in plain.stdout
    assert b"cuda-lib-shadowed" in shared.stdout
    assert b"alicecanary" not in shared.stdout + shared.stderr


def test_run_is_for_this_host_only(envcheck, tmp_path):
    (tmp_path / "log.txt").write_bytes(PASTE)
    done = envcheck("doctor", "log.txt", "--run")
    assert done.returncode == 2
    assert b"--run" in done.stderr


def test_run_without_a_framework_says_that_nothing_was_run(envcheck, tmp_path):
    import subprocess
    import sys

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True, timeout=60)
    done = envcheck("doctor", "--run", "--python", str(tmp_path / "env/bin/python"))
    assert b"Nothing was run" in done.stdout
