"""`envcheck check` on images of a real registry, with TLS as in earnest."""

import json
import os
import subprocess
import sys

import pytest

from .real_registry import NGC_ENV, REPOSITORY, Image, digest

pytestmark = pytest.mark.integration


def both_architectures():
    image = Image(env=NGC_ENV, arches=("amd64", "arm64"), index=True)
    index = json.loads(image.top)
    image.manifests.pop(digest(image.top))
    # the real registry wants every entry to be there
    image.top = json.dumps({**index, "manifests": index["manifests"][:2]}).encode()
    return image


@pytest.fixture(scope="module")
def tls(start_registry, authority):
    registry = start_registry("https", f"  tls: {{certificate: {authority}/host.crt, key: {authority}/host.key}}\n")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # they would win over `verify`
            patch.delenv(name, raising=False)
        registry.push(both_architectures(), "both", verify=str(authority / "ca.crt"))
    return registry


def check(folder, authority, settings):
    (folder / "envcheck.toml").write_text(settings)
    env = {**os.environ, "REQUESTS_CA_BUNDLE": str(authority / "ca.crt"), "HOME": str(folder)}
    argv = [sys.executable, "-m", "envcheck", "check", "--format=json", "--format=text:shown"]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else done.stderr


def test_every_target_gets_the_image_of_its_own_architecture(tls, authority, tmp_path):
    image = f"{tls.host}/{REPOSITORY}:both"
    _, gate = check(tmp_path, authority, f'targets = ["aws:g5.xlarge", "aws:g5g.xlarge"]\nimages = ["{image}"]\n')
    cells = {cell["where"]: cell["report"] for cell in gate["cells"] if cell["what"] == image}
    assert {where: report["snapshot"]["stack"]["arch"]["value"] for where, report in cells.items()} == {
        "aws:g5.xlarge": "x86_64",
        "aws:g5g.xlarge": "aarch64",
    }
    assert not any(f["rule"] == "IMG101" for report in cells.values() for f in report["findings"])


def test_a_registry_that_does_not_answer_is_no_pass(tls, authority, tmp_path):
    code, gate = check(tmp_path, authority, 'targets = ["aws:g5.xlarge"]\nimages = ["localhost:9/none:1"]\n')
    assert code == 3
    assert gate["summary"]["unknown"] == 1
    assert "could not be inspected" in (tmp_path / "shown").read_text()


def test_a_tag_that_is_none_is_the_settings_fault(tls, authority, tmp_path):
    code, error = check(tmp_path, authority, f'images = ["{tls.host}/{REPOSITORY}:bohth"]\n')
    assert code == 2
    assert "both" in error
