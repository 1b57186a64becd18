"""Which GPU a name, a cut name or a PCI id means, and what code runs on it."""

import pytest

from envcheck.errors import UnknownName
from envcheck.model.machine import Gpu

NAMES = {
    "NVIDIA GeForce RTX 4090": ("NVIDIA GeForce RTX 4090", "8.9"),
    "GeForce RTX 4090": ("NVIDIA GeForce RTX 4090", "8.9"),
    "RTX 4090": ("NVIDIA GeForce RTX 4090", "8.9"),
    "rtx4090": ("NVIDIA GeForce RTX 4090", "8.9"),
    "4090": ("NVIDIA GeForce RTX 4090", "8.9"),
    "NVIDIA GeForce RTX 4090 24GB": ("NVIDIA GeForce RTX 4090", "8.9"),
    "RTX 4090 D": ("NVIDIA GeForce RTX 4090 D", "8.9"),
    "NVIDIA GeForce RTX 4090 Laptop GPU": ("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9"),
    "RTX 4090 Mobile": ("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9"),
    "RTX 4070 Ti": ("NVIDIA GeForce RTX 4070 Ti", "8.9"),
    "4070 Ti Super": ("NVIDIA GeForce RTX 4070 Ti SUPER", "8.9"),
    "RTX 4070": ("NVIDIA GeForce RTX 4070", "8.9"),
    "gtx1080ti": ("NVIDIA GeForce GTX 1080 Ti", "6.1"),
    "A100-SXM4-80GB": ("NVIDIA A100-SXM4-80GB", "8.0"),
    "NVIDIA A100-SXM4-80GB MIG 1g.10gb": ("NVIDIA A100-SXM4-80GB", "8.0"),
    "A100": ("NVIDIA A100", "8.0"),
    "Tesla V100-SXM2-16GB": ("Tesla V100-SXM2-16GB", "7.0"),
    "V100 32GB": ("Tesla V100", "7.0"),
    "H100 80GB HBM3": ("NVIDIA H100 80GB HBM3", "9.0"),
    "H100 SXM5": ("NVIDIA H100 80GB HBM3", "9.0"),
    "T4": ("Tesla T4", "7.5"),
    "GRID T4-8Q": ("Tesla T4", "7.5"),
    "Quadro RTX 4000": ("Quadro RTX 4000", "7.5"),
    "RTX 6000 Ada": ("NVIDIA RTX 6000 Ada Generation", "8.9"),
    "RTX A6000": ("NVIDIA RTX A6000", "8.6"),
    "K40": ("Tesla K40", "3.5"),
    "K80": ("Tesla K80", "3.7"),
    "Orin (nvgpu)": ("Orin", "8.7"),
    "Xavier": ("Jetson AGX Xavier", "7.2"),
    "NVIDIA Thor": ("Jetson AGX Thor (T5000)", "11.0"),
    "DGX Spark": ("NVIDIA GB10", "12.1"),
    "RTX PRO 6000": ("RTX PRO 6000", "12.0"),
    "NVIDIA RTX PRO 6000 Blackwell Server...": ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0"),
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items(), ids=NAMES)
def test_a_name_leads_to_its_model(matrix, name, expected):
    found = matrix.find_gpu(name)
    assert found is not None
    assert (found.name, found.capability) == expected


@pytest.mark.parametrize(
    "name",
    ["", "GPU", "RTX 409", "RTX 4000", "RTX 6000", "TITAN X", "RTX 4090 80GB", "RTX 3050 Ti", "Graphics Device", "5"],
)
def test_a_name_that_could_be_several_gpus_or_none_leads_nowhere(matrix, name):
    assert matrix.find_gpu(name) is None


def test_a_name_cut_by_nvidia_smi_is_its_family_without_the_memory(matrix):
    found = matrix.find_gpu("NVIDIA A100-SXM...")
    assert (found.name, found.capability, found.memory_gb) == ("NVIDIA A100", "8.0", None)


def test_a_cut_name_that_fits_several_models_leads_nowhere(matrix):
    assert matrix.find_gpu("NVIDIA GeForce RTX 20...") is None


def test_every_model_is_found_by_its_own_name(matrix):
    assert [model.name for model in matrix.gpus if matrix.find_gpu(model.name) != model] == []


def test_ti_super_and_laptop_never_stand_for_the_plain_model(matrix):
    special = ("Ti", "SUPER", "Super", "Laptop", "Max-Q", "Mobile")
    for model in matrix.gpus:
        words = model.name.split()
        if any(word in special for word in words):
            plain = " ".join(word for word in words if word not in special)
            found = matrix.find_gpu(plain)
            assert found is None or found.name != model.name or plain in model.aliases


def test_a_pci_id_leads_to_its_model(matrix):
    assert matrix.find_gpu_by_pci("0x2684").name == "NVIDIA GeForce RTX 4090"


def test_a_pci_id_of_two_products_names_both(matrix):
    found = matrix.find_gpu_by_pci("25b6")
    assert found.capability == "8.6"
    assert "A16" in found.name
    assert "A2" in found.name


@pytest.mark.parametrize("device", [None, "", "FFFF", "nonsense"])
def test_an_unknown_pci_id_leads_nowhere(matrix, device):
    assert matrix.find_gpu_by_pci(device) is None


def test_an_unknown_name_is_refused_with_the_nearest(matrix):
    with pytest.raises(UnknownName) as refused:
        matrix.get_gpu("RTX 409")
    assert refused.value.exit_code == 2
    assert "RTX 4090" in refused.value.what_to_do


def test_the_measured_capability_wins_over_the_name(matrix):
    assert matrix.capability_of(Gpu(name="NVIDIA GeForce RTX 4090", capability="9.9")) == "9.9"


def test_a_capability_that_was_not_measured_comes_from_name_then_pci_id(matrix):
    assert matrix.capability_of(Gpu(name="Tesla T4")) == "7.5"
    assert matrix.capability_of(Gpu(name="NVIDIA Graphics Device", pci_id="2684")) == "8.9"
    assert matrix.capability_of(Gpu(name="Radeon RX 7900", vendor="amd")) is None


def test_a_model_whose_capability_contradicts_the_measurement_is_not_taken(matrix):
    assert matrix.model_of(Gpu(name="Tesla T4", capability="8.9")) is None


RUNS = [
    (("8.0",), "8.6", "sass"),
    (("8.6",), "8.0", None),
    (("8.0",), "9.0", None),
    (("8.0+PTX",), "12.0", "ptx"),
    (("9.0+PTX",), "8.0", None),
    (("9.0a",), "9.0", "sass"),
    (("10.0a",), "10.3", None),
    (("10.0f",), "10.3", "sass"),
    (("9.0a+PTX",), "12.0", None),
    (("8.6",), "8.7", None),  # Orin: discrete code doesn't run on integrated GPUs
    (("8.7",), "8.7", "sass"),
    (("12.0",), "12.1", "sass"),
    ((), "8.0", None),
]


@pytest.mark.parametrize(("compiled", "capability", "how"), RUNS)
def test_code_runs_by_nvidias_rules(matrix, compiled, capability, how):
    assert matrix.kernels(compiled, capability) == how


@pytest.mark.parametrize(
    ("capability", "cuda", "made"),
    [
        ("7.0", "12.9", True),
        ("sm_70", "13.0", False),
        ("12.0", "12.6", False),
        ("12.0", "12.8", True),
        ("99", "12.0", None),
    ],
)
def test_a_toolkit_compiles_for_what_lies_between_its_bounds(matrix, capability, cuda, made):
    assert matrix.compiles_for(capability, cuda) is made
