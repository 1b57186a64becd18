"""Each format that people paste, as its tool prints it: what is read, and with which line as source."""

from __future__ import annotations

import pytest

from envcheck.errors import InspectError
from envcheck.readers.detect import read_report


def read(text, symptoms=()):
    return read_report(text, name="paste", symptoms=symptoms)


def packages(snap):
    return {package.name: package for package in snap.stack.packages.get()}


TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI {smi}                 {driver}: {smi}         {cuda}: {version}     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   30C    P0             60W /  400W |       4MiB /  81920MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA A100-SXM4-80GB          On  |   00000000:0F:00.0 Off |                    2 |
| N/A   30C    P0             60W /  400W |       4MiB /  81920MiB |      0%      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
"""


@pytest.mark.parametrize(
    ("driver", "cuda", "smi", "version"),
    [
        ("Driver Version", "CUDA Version", "550.54.15", "12.4"),
        ("KMD Version", "CUDA UMD Version", "610.43.02", "13.3"),
    ],
)
def test_nvidia_smi_of_both_headers(driver, cuda, smi, version):
    snap = read(TABLE.format(driver=driver, cuda=cuda, smi=smi, version=version))
    assert (snap.machine.driver.get().version, snap.machine.driver.get().cuda) == (smi, version)
    assert snap.machine.driver.source == "line 2"
    first, second = snap.machine.gpus.get()
    assert (first.name, first.memory_mib, first.mig_enabled, first.ecc_errors) == (
        "NVIDIA A100-SXM4-80GB",
        81920,
        False,
        0,
    )
    assert (second.index, second.mig_enabled, second.ecc_errors, second.source) == (1, True, 2, "line 12")


def test_an_old_table_with_a_cut_name_and_no_persistence():
    snap = read(
        "| NVIDIA-SMI 375.66                 Driver Version: 375.66                    |\n"
        "|   0  GeForce GTX 108...  Off  | 0000:06:00.0     Off |                  N/A |\n"
        "| 20%   29C    P8     8W / 250W |   1796MiB /  8110MiB |      0%      Default |\n"
    )
    assert snap.machine.driver.get().cuda is None
    assert [(gpu.name, gpu.memory_mib) for gpu in snap.machine.gpus.get()] == [("GeForce GTX 108...", 8110)]


def test_a_cut_name_is_completed_by_a_list():
    snap = read(
        "|   0  NVIDIA GeForce ...  Off  | 00000000:05:00.0 Off |                  N/A |\n"
        "GPU 0: NVIDIA GeForce RTX 3050 Laptop GPU (UUID: GPU-1)\n"
    )
    assert [gpu.name for gpu in snap.machine.gpus.get()] == ["NVIDIA GeForce RTX 3050 Laptop GPU"]


def test_mig_devices_of_a_list():
    snap = read(
        "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n  MIG 4g.40gb     Device  1: (UUID: MIG-2)\n"
    )
    assert [device.profile for device in snap.machine.gpus.get()[0].mig_devices] == ["3g.40gb", "4g.40gb"]


def test_nvidia_smi_q_of_two_gpus():
    gpu = (
        "GPU 0000000{n}:01:00.0\n    Product Name                          : NVIDIA H100 80GB HBM3\n"
        "    MIG Mode\n        Current                           : Disabled\n"
        "    GPU UUID                              : GPU-{n}\n"
        "    PCI\n        Device Id                         : 0x233010DE\n"
        "    FB Memory Usage\n        Total                             : 81559 MiB\n"
        "        Used                              : 3 MiB\n"
        "    BAR1 Memory Usage\n        Total                             : 131072 MiB\n"
        "    Remapped Rows\n        Pending                           : {pending}\n"
        "        Remapping Failure Occurred        : No\n"
    )
    snap = read(
        "==============NVSMI LOG==============\n\nTimestamp : x\nDriver Version                            : 535.161.07\n"  # noqa: E501
        "CUDA Version                              : 12.2\n\nAttached GPUs                             : 2\n"
        + gpu.format(n=1, pending="No")
        + gpu.format(n=2, pending="Yes")
    )
    assert snap.machine.driver.get().cuda == "12.2"
    assert [(g.pci_id, g.memory_mib, g.remap_pending, g.mig_enabled) for g in snap.machine.gpus.get()] == [
        ("2330", 81559, False, False),
        ("2330", 81559, True, False),
    ]


def test_the_xml_log_also_when_it_is_cut():
    text = (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        "<driver_version>550.54.15</driver_version>\n<cuda_version>12.4</cuda_version>\n"
        '<gpu id="00000000:01:00.0">\n<product_name>Tesla T4</product_name>\n'
        "<fb_memory_usage><total>15360 MiB</total></fb_memory_usage>\n<pci><pci_device_id>1EB810DE</pci_device_id>"
    )
    snap = read(text)
    assert snap.machine.driver.get().version == "550.54.15"
    assert [(g.name, g.memory_mib, g.pci_id) for g in snap.machine.gpus.get()] == [("Tesla T4", 15360, "1EB8")]


def test_the_xml_log_of_a_gpu_in_mig_mode_keeps_both_memories():
    text = (
        '<nvidia_smi_log><driver_version>510.47.03</driver_version><gpu id="00000000:00:04.0">'
        "<product_name>NVIDIA A100-SXM4-40GB</product_name><mig_mode><current_mig>Enabled</current_mig></mig_mode>"
        "<mig_devices><mig_device><fb_memory_usage><total>19968 MiB</total></fb_memory_usage></mig_device>"
        "</mig_devices>"
        "<fb_memory_usage><total>40960 MiB</total></fb_memory_usage></gpu></nvidia_smi_log>"
    )
    gpu = read(text).machine.gpus.get()[0]
    assert (gpu.memory_mib, gpu.mig_enabled, [device.memory_mib for device in gpu.mig_devices]) == (
        40960,
        True,
        [19968],
    )


@pytest.mark.parametrize(
    "text",
    [
        "name, driver_version, memory.total [MiB], compute_cap\nNVIDIA L4, 535.161.07, 23034 MiB, 8.9",
        (
            "$ nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader\n"
            "NVIDIA L4, 535.161.07, 23034 MiB, 8.9"
        ),
    ],
)
def test_csv_with_and_without_a_header(text):
    snap = read(text)
    gpu = snap.machine.gpus.get()[0]
    assert (gpu.name, gpu.memory_mib, gpu.capability) == ("NVIDIA L4", 23034, "8.9")
    assert snap.machine.driver.get().version == "535.161.07"


ENV = """\
PyTorch version: 2.5.1+cu121
Is debug build: False
CUDA used to build PyTorch: 12.1
ROCM used to build PyTorch: N/A

OS: Ubuntu 22.04.5 LTS (x86_64)
GCC version: (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
Libc version: glibc-2.35

Python version: 3.10.12 (main, Jan 17 2025, 14:35:34) [GCC 11.4.0] (64-bit runtime)
Python platform: Linux-5.4.0-193-generic-x86_64-with-glibc2.35
Is CUDA available: True
CUDA runtime version: 12.1.105
GPU models and configuration: GPU 0: NVIDIA GeForce RTX 4090
Nvidia driver version: 535.183.01
cuDNN version: Probably one of the following:
/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.0

Versions of relevant libraries:
[pip3] torch==2.5.1
[pip3] nvidia-cudnn-cu12==9.1.0.70
"""


@pytest.mark.parametrize(
    "layout",
    [
        lambda text: text,
        lambda text: "\n".join(line.replace(": ", "                 : ", 1) for line in text.splitlines()),
        lambda text: " ".join(text.split()),
        lambda text: "```text\n" + "\n".join("> " + line for line in text.splitlines()) + "\n```",
    ],
    ids=["plain", "padded", "folded into one line", "quoted"],
)
def test_collect_env_in_every_dress(layout):
    snap = read(layout(ENV))
    torch = packages(snap)["torch"]
    assert (torch.version, torch.variant, torch.cuda) == ("2.5.1+cu121", "cu121", "12.1")
    assert snap.machine.driver.get().version == "535.183.01"
    assert [gpu.name for gpu in snap.machine.gpus.get()] == ["NVIDIA GeForce RTX 4090"]
    assert (snap.stack.glibc.get(), snap.stack.python.get().version) == ("2.35", "3.10.12")
    assert [(t.version, t.on_path) for t in snap.stack.toolkits.get()] == [("12.1.105", True)]
    assert packages(snap)["nvidia-cudnn-cu12"].version == "9.1.0.70"
    assert snap.stack.complete.get() is False


@pytest.mark.parametrize("word", ["None", "Could not collect"])
def test_a_cpu_build_by_its_missing_cuda(word):
    snap = read(
        f"PyTorch version: 1.12.1\nIs debug build: False\nCUDA used to build PyTorch: {word}\nROCM used to build PyTorch: N/A"  # noqa: E501
    )
    assert packages(snap)["torch"].cuda == ""


def test_a_rocm_build():
    snap = read(
        "PyTorch version: 2.4.0+rocm6.1\nCUDA used to build PyTorch: N/A\nROCM used to build PyTorch: 6.1.40091-a8dbc0c19"  # noqa: E501
    )
    assert packages(snap)["torch"].hip == "6.1.40091-a8dbc0c19"


def test_a_whole_pip_list_is_known_to_be_whole_and_a_filtered_one_is_not():
    rows = "".join(
        f"{name:<20}1.0.{i}\n" for i, name in enumerate(["attrs", "click", "idna", "jax", "numpy", "pip", "torch"])
    )
    assert (
        read("$ pip list\nPackage             Version\n------------------- -------\n" + rows).stack.complete.get()
        is True
    )
    assert read("$ pip list | grep -v x\n" + rows).stack.complete.get() is False


@pytest.mark.parametrize(
    ("line", "name", "version"),
    [
        ("torch==2.2.1+cu121", "torch", "2.2.1+cu121"),
        (" + onnxruntime==1.20.1", "onnxruntime", "1.20.1"),
        ("torch @ https://x/torch-2.2.1%2Bcpu-cp310-cp310-linux_x86_64.whl#sha256=1", "torch", "2.2.1+cpu"),
        ("nvidia-nccl-cu12          2.21.5", "nvidia-nccl-cu12", "2.21.5"),
        ("flash_attn                2.7.4.post1", "flash-attn", "2.7.4.post1"),
        ("- pytorch=2.1.0=py3.10_cuda12.1_cudnn8.9.2_0", "torch", "2.1.0"),
        ("[conda] pytorch   1.3.0  py3.7_cuda10.1.243_cudnn7.6.3_0    pytorch", "torch", "1.3.0"),
    ],
)
def test_lines_of_package_lists(line, name, version):
    assert packages(read(line))[name].version == version


def test_conda_builds_tell_their_cuda():
    snap = read(
        "# packages in environment at /opt/conda:\n#\n# Name    Version   Build  Channel\n"
        "pytorch   2.1.0   py3.10_cuda12.1_cudnn8.9.2_0   pytorch\nnumpy   1.26.4   pypi_0   pypi\n"
    )
    assert (packages(snap)["torch"].cuda, packages(snap)["torch"].installer) == ("12.1", "conda")
    assert packages(snap)["numpy"].installer == "pip"


def test_tool_reports():
    snap = read(
        "- `transformers` version: 4.38.2\n- Platform: Linux-5.15.0-91-generic-x86_64-with-glibc2.35\n"
        "- Python version: 3.10.12\n- PyTorch version (GPU?): 2.2.1+cu121 (True)\n"
        "torch cuda version ............... 12.1\nnvcc version ..................... 11.7\n"
        "shared memory (/dev/shm) size .... 64.00 MB\n"
    )
    assert packages(snap)["torch"].version == "2.2.1+cu121"
    assert packages(snap)["transformers"].version == "4.38.2"
    assert snap.machine.shm_bytes.get() == 64 * 2**20
    assert snap.stack.toolkits.get()[0].version == "11.7"


def test_python_prints():
    snap = read(
        ">>> torch.__version__\n'1.8.1'\n>>> torch.version.cuda\n'11.1'\n>>> torch.cuda.get_device_name(0)\n"
        "'GeForce RTX 3090'\n>>> torch.cuda.get_arch_list()\n['sm_37', 'sm_50', 'compute_37']\n"
        '$ python -c "import jax; print(jax.__version__)"\n0.4.31\n'
    )
    torch = packages(snap)["torch"]
    assert (torch.version, torch.cuda, torch.capabilities) == ("1.8.1", "11.1", ("3.7", "5.0", "3.7+PTX"))
    assert packages(snap)["jax"].version == "0.4.31"
    assert snap.machine.gpus.get()[0].name == "GeForce RTX 3090"


def test_compilers_loaders_and_kernel():
    snap = read(
        "Cuda compilation tools, release 12.4, V12.4.131\ngcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n"
        "\tlibcudnn.so.9 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcudnn.so.9\n"
        "ii  libcudnn8   8.6.0.163-1+cuda11.8   amd64   cuDNN\n"
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.51.03  Release Build\n"
        "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', GPU has fallen off the bus.\nSecureBoot enabled\n"
    )
    assert snap.stack.toolkits.get()[0].version == "12.4.131"
    assert snap.stack.compiler.get().version == "11.4.0"
    assert snap.stack.libraries.get()[0].path == "/lib/x86_64-linux-gnu/libcudnn.so.9"
    assert snap.stack.cudnn.get() == "8.6.0.163"
    assert (snap.machine.driver.get().version, snap.machine.driver.get().flavour) == ("575.51.03", "open")
    assert snap.machine.xids.get()[0].code == 79
    assert snap.machine.secure_boot.get() is True


def test_containers():
    snap = read(
        "$ docker run --rm --gpus all nvidia/cuda:12.4.1-base-ubuntu22.04 nvidia-smi\nServer Version: 27.0.3\n"
        " Cgroup Driver: systemd\n Runtimes: io.containerd.runc.v2 nvidia runc\n"
        "NVIDIA Container Toolkit CLI version 1.16.1\n"
    )
    assert snap.wants.gpus_requested is True
    assert (snap.stack.image.get().reference, snap.stack.cuda.get()) == ("nvidia/cuda:12.4.1-base-ubuntu22.04", "12.4")
    assert snap.machine.engine.get().runtimes == ("io.containerd.runc.v2", "nvidia", "runc")
    assert snap.machine.toolkit.get().version == "1.16.1"


def test_words_of_a_person():
    snap = read("# GPU: 2x RTX 3090, host driver 525, container CUDA 12.1, python 3.10")
    assert [gpu.name for gpu in snap.machine.gpus.get()] == ["RTX 3090", "RTX 3090"]
    assert snap.machine.driver.get().version == "525"
    assert (snap.stack.cuda.get(), snap.stack.python.get().version) == ("12.1", "3.10")


def test_numbers_in_messages_are_decoded(matrix):
    snap = read("The NVIDIA driver on your system is too old (found version 12020).", matrix.symptoms)
    assert (snap.machine.driver.get().version, snap.machine.driver.get().cuda) == (None, "12.2")
    assert snap.events[0].values == {"driver_cuda": "12020"}


def test_prose_outside_remarks_tells_nothing():
    with pytest.raises(InspectError):
        read("I read that the RTX 4090 with driver 550 is fine, and so is torch 2.1")
