"""Whole programs and whole modules in a simulated world."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import NotSimulated, simulate


def sim(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "anydevice", "sim", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_status_and_arguments_are_those_of_the_program(tmp_path):
    script = tmp_path / "p.py"
    script.write_text("import sys, torch; print(sys.argv[1:], torch.cuda.device_count(), __name__); sys.exit(7)")
    done = sim("--as", "cuda:2", str(script), "--epochs", "1")
    assert (done.returncode, done.stdout) == (7, "['--epochs', '1'] 2 __main__\n")


def test_a_traceback_shows_the_program_and_not_us(tmp_path):
    script = tmp_path / "p.py"
    script.write_text("import torch\na = torch.ones(2).cuda()\nb = torch.ones(2)\na + b\n")
    done = sim("--as", "cuda", str(script))
    assert done.returncode == 1
    assert "line 4" in done.stderr and "line 3: b = torch" not in done.stderr.split("RuntimeError")[0]
    assert "is on cpu since" in done.stderr and "/anydevice/" not in done.stderr


def test_children_inherit_the_world():
    code = "import subprocess, sys, torch; subprocess.run([sys.executable, '-c', 'import torch; print(torch.ones(1).cuda())'])"
    assert "device='cuda:0'" in sim("--as", "cuda", "-c", code).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--as", "tpu", "x.py"], "no world is called 'tpu'"),
        (["--as", "cuda", "nofile.py"], "'nofile.py': not found"),
        (["--as", "cuda", "--memory", "lots", "-c", "1"], "not an amount of memory"),
        (["--as", "cuda", "--report", "a.txt", "-c", "1"], ".html or .json"),
    ],
)
def test_bad_input_is_named(arguments, says):
    done = sim(*arguments)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize(
    ("world", "name"),
    [("cuda:2", "cuda"), ("rocm", "cuda"), ("xpu:2", "xpu"), ("mps", "mps"), ("cuda", "accelerator")],
)
def test_every_name_of_a_back_end_answers_or_is_not_simulated(world, name):
    with simulate(world), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = getattr(torch, name)
        for key in module.__all__:
            value = getattr(module, key)
            if not callable(value) or key.endswith("Storage"):
                continue
            with contextlib.suppress(NotSimulated, TypeError, ValueError):  # the last two: it wants arguments
                value()


def test_checkpoints_carry_devices():
    with simulate("cuda:2"):
        file = io.BytesIO()
        torch.save({"w": torch.ones(2, device="cuda:1")}, file)
        assert torch.load(io.BytesIO(file.getvalue()))["w"].device == torch.device("cuda", 1)
        assert torch.load(io.BytesIO(file.getvalue()), map_location="cpu")["w"].device.type == "cpu"
    with simulate("none"), pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        torch.load(io.BytesIO(file.getvalue()))
    assert torch.load(io.BytesIO(file.getvalue()), map_location="cpu")["w"].tolist() == [1, 1]


def test_autocast_casts_on_the_device_only():
    with simulate("cuda"), torch.autocast("cuda"):
        x, y = torch.ones(2, 2, device="cuda"), torch.ones(2, 2)
        assert ((x @ x).dtype, x.softmax(0).dtype, (y @ y).dtype) == (torch.float16, torch.float32, torch.float32)


def test_a_generator_belongs_to_its_device():
    with simulate("cuda"):
        torch.manual_seed(1)
        state = torch.cuda.get_rng_state()
        first = torch.randn(3, device="cuda").tolist()
        torch.cuda.set_rng_state(state)
        assert torch.randn(3, device="cuda").tolist() == first
        with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
            torch.randn(3, device="cuda", generator=torch.Generator())


def test_memory_runs_out_and_comes_back():
    with simulate("cuda", memory=2**20):
        with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 2.00 MiB"):
            torch.ones(2**19, device="cuda")
        x = torch.ones(100, device="cuda")
        assert torch.cuda.memory_allocated() == 512
        del x
        assert torch.cuda.memory_allocated() == 0


def test_leaving_restores_everything():
    before = {
        name: dict(vars(owner)) for name, owner in (("torch", torch), ("Tensor", torch.Tensor), ("cuda", torch.cuda))
    }
    with pytest.raises(KeyError), simulate("cuda"), simulate("mps"):
        raise KeyError
    for name, owner in (("torch", torch), ("Tensor", torch.Tensor), ("cuda", torch.cuda)):
        assert [key for key, value in before[name].items() if vars(owner)[key] is not value] == []
