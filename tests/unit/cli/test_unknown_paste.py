import json


def test_a_paste_that_nobody_knows_is_inconclusive_and_says_what_to_paste(envcheck):
    done = envcheck("doctor", "-", stdin=b"hello world\n")
    shown = done.stdout.decode()
    assert done.returncode == 3
    assert shown.startswith("? Inconclusive: nothing in this paste is known to me")
    assert "nvidia-smi" in shown


def test_it_is_a_report_in_json_too(envcheck):
    done = envcheck("doctor", "-", "--format", "json", stdin=b"hello world\n")
    assert done.returncode == 3
    report = json.loads(done.stdout)
    assert report["summary"]["verdict"] == "inconclusive"
    assert report["findings"] == []


def test_an_empty_paste_is_an_error_of_its_own(envcheck):
    done = envcheck("doctor", "-", stdin=b"")
    assert done.returncode == 3
    assert b"is empty" in done.stderr
