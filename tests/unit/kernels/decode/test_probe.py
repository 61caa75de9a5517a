import importlib.util
import subprocess
import sys

import pytest

from pega_tune.errors import UsageError
from pega_tune.kernels.decode.external import ExternalProbe
from pega_tune.kernels.decode.models import DecodeModel
from pega_tune.kernels.decode.probe import BuiltinProbe, make_probe
from pega_tune.kernels.decode.torch_probe import TorchMissingError, TorchProbe, import_torch


@pytest.mark.parametrize(
    ("source", "kind"), [("builtin", BuiltinProbe), ("torch", TorchProbe), ("external:sleep 1", ExternalProbe)]
)
def test_a_source_selects_its_probe(source, kind):
    assert isinstance(make_probe(source, "small"), kind)


@pytest.mark.parametrize(
    ("source", "model", "message"),
    [
        ("vllm", "small", "no decode workload 'vllm'"),
        ("external", "small", "no decode workload 'external'"),
        ("builtin", "gpt-7", "no decode model"),
        ("torch", "layers=0", "1 to 16777216 layers"),
        ("external:", "small", "names no program"),
    ],
)
def test_what_cannot_run_is_refused_before_it_starts(source, model, message):
    with pytest.raises(UsageError, match=message):
        make_probe(source, model)


def test_a_probe_runs_only_after_its_start():
    for probe in (BuiltinProbe(DecodeModel.parse("small")), ExternalProbe("sleep 1")):
        with pytest.raises(UsageError, match="has not been started"):
            probe.run()
        probe.close()


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_a_torch_that_is_missing_is_told_with_what_to_install():
    with pytest.raises(TorchMissingError, match="cannot import torch") as caught:
        import_torch()
    assert "pega-tune[torch]" in caught.value.hint


@pytest.mark.parametrize("module", ["models", "step"])
def test_models_and_steps_are_plain_python(module):
    program = (
        f"import sys, pega_tune.kernels.decode.{module}\n"
        "print(*sorted({'numba', 'cuda', 'numpy', 'torch'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == ""


def test_no_probe_imports_torch_before_it_starts():
    program = (
        "import sys\nfrom pega_tune.kernels.decode.probe import make_probe\n"
        "make_probe('torch', 'small')\nprint('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "False"
