"""What is made for pasting: canaries never come through, and what a diagnosis needs does."""

from __future__ import annotations

import msgspec
import pytest

from envcheck.model.fact import known
from envcheck.model.machine import Driver, Gpu, Machine
from envcheck.model.snapshot import Event, Origin, Snapshot
from envcheck.model.stack import Package, Stack
from envcheck.redact import redact_snapshot, redact_text, share_report

CANARIES = [
    ("export HF_TOKEN=hf_CANARYabcdefghijklmnop", "CANARY"),
    ("Authorization: Bearer CANARY.abc-123", "CANARY"),
    ("git clone https://oauth2:CANARYpw@gitlab.example.com/x.git", "CANARY"),
    ("pip install --extra-index-url https://u:CANARY@host/simple torch", "CANARY"),
    ("AWS_SECRET_ACCESS_KEY=CANARY/abc+def", "CANARY"),
    ("AKIACANARY0123456789", "CANARY"),
    ("ghp_CANARY0123456789abcdef", "CANARY"),
    ("https://bucket/x?X-Amz-Signature=CANARY123&a=1", "CANARY"),
    ("password: CANARY", "CANARY"),
    ('{"api_key": "CANARY"}', "CANARY"),
    ("mysql --password CANARY -u root", "CANARY"),
    ("-----BEGIN RSA PRIVATE KEY-----\nCANARY\n-----END RSA PRIVATE KEY-----", "CANARY"),
    ("eyJCANARYabcdef.eyJzdWIiOiJ4In0.sig", "CANARY"),
    ('File "/home/canary/x.py", line 1', "canary"),
    ("/Users/canary/miniforge3/lib", "canary"),
    ("C:\\Users\\canary\\AppData", "canary"),
    ("canary@canaryhost:~$ nvidia-smi", "canary"),
    ("(env) canary@canaryhost:~$ nvidia-smi", "canary"),
    ("[canary@canaryhost ~]$ ls", "canary"),
    ("Oct 04 13:19:39 canaryhost kernel: NVRM: Xid", "canary"),
    ("Linux canaryhost 5.15.0-91-generic #101-Ubuntu SMP x86_64", "canary"),
    ("mail me at canary@example.org", "canary"),
    ("    Serial Number                     : 1320CANARY", "CANARY"),
    ("GPU 0: NVIDIA A100 (UUID: GPU-67a571b1-79ee-1016-8ea3-c1fff3f1c1d2)", "67a571b1"),
    ("<uuid>GPU-67a571b1-79ee-1016-8ea3-c1fff3f1c1d2</uuid>", "67a571b1"),
    ("inet 10.20.30.40/24 brd 10.20.30.255", "10.20.30"),
    ("NCCL INFO NET/Socket : Using [0]eth0:192.168.7.9<0>", "192.168.7.9"),
    ("ether 02:42:ac:11:00:02 txqueuelen", "02:42:ac"),
    ("inet6 fe80:0:0:0:42:acff:fe11:2", "fe80"),
]


@pytest.mark.parametrize(("text", "secret"), CANARIES)
def test_a_canary_does_not_come_through(text, secret):
    assert secret not in redact_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-cudnn-cu12==9.1.0.70",
        "cuDNN version: 9.1.0.70",
        "| NVIDIA-SMI 570.86.10    Driver Version: 570.86.10    CUDA Version: 12.8 |",
        "libcudnn.so.9.1.0.70",
        "RuntimeError: operator torchvision::nms does not exist",
        "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus",
        "undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs",
        "/usr/local/cuda-12.1/lib64/libnvJitLink.so.12",
        "listening on 127.0.0.1:8000",
        "torch 2.5.1+cu124",
    ],
)
def test_what_a_diagnosis_needs_stays(text):
    assert redact_text(text) == text


def test_a_shared_snapshot_keeps_facts_and_loses_persons():
    snap = Snapshot(
        origin=Origin("host", "canaryhost"),
        machine=Machine(
            driver=known(Driver("570.86.10", "open", "12.8"), "/proc/driver/nvidia/version"),
            gpus=known((Gpu("NVIDIA A100", uuid="GPU-CANARY", pci_bus="00000000:01:00.0"),), "NVML"),
        ),
        stack=Stack(
            env=known(
                {"CUDA_VISIBLE_DEVICES": "0", "HF_TOKEN": "CANARY", "LD_LIBRARY_PATH": "/home/canary/lib"}, "environ"
            ),
            packages=known((Package("torch", "2.5.1+cu124", location="/home/canary/venv"),), "metadata"),
        ),
        events=(Event("x", "File /home/canary/x.py", "line 1"),),
    )
    text = share_report(snap)
    assert "CANARY" not in text
    assert "/home/canary" not in text
    shared = msgspec.json.decode(text, type=Snapshot)
    assert shared.machine.driver.get().version == "570.86.10"
    assert shared.stack.env.get() == {"CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/home/user/lib"}
    assert redact_snapshot(shared) == shared


def test_a_shared_paste_stays_readable():
    assert share_report("canary@host:~$ nvidia-smi\r\nFailed to initialize NVML: Unknown Error") == (
        "user@host:~$ nvidia-smi\nFailed to initialize NVML: Unknown Error\n"
    )
