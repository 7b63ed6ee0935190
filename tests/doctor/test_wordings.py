"""Errors in other words than their sample: other versions, libraries, systems; and texts that only look alike."""

from __future__ import annotations

import pytest

from anydevice.doctor.explain.explaining import explain_text

_SAME = [
    ("lib-cuda-missing", "ImportError: libcublas.so.11: cannot open shared object file: No such file or directory"),
    ("lib-cuda-missing", "OSError: libnccl.so.2: cannot open shared object file: No such file or directory"),
    ("lib-cudnn-missing", "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory"),
    ("lib-cuda-missing", "ImportError: libcusparseLt.so.0: cannot open shared object file: No such file or directory"),
    ("lib-cuda-missing", "RuntimeError: Library libcublas.so.12 is not found or cannot be loaded"),
    (
        "lib-cudnn8-split",
        "Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9, libcudnn_ops.so}",
    ),
    ("lib-cudnn8-split", "Could not locate cudnn_ops_infer64_8.dll. Please make sure it is in your library path!"),
    ("lib-cudart-missing", "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory"),
    ("no-device", "RuntimeError: No CUDA GPUs are available"),
    (
        "sm-not-compatible",
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\nThe current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.",
    ),
    ("driver-too-old", "RuntimeError: The NVIDIA driver on your system is too old (found version 12020)."),
    (
        "same-device",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, mps:0 and cpu!",
    ),
    ("half-cpu", "RuntimeError: \"LayerNormKernelImpl\" not implemented for 'Half'"),
    ("half-cpu", "RuntimeError: \"slow_conv2d_cpu\" not implemented for 'Half'"),
    (
        "win126",
        'OSError: [WinError 126] The specified module could not be found. Error loading "D:\\ComfyUI\\python_embeded\\Lib\\site-packages\\torch\\lib\\shm.dll" or one of its dependencies.',
    ),
    (
        "win126",
        'OSError: [WinError 127] The specified procedure could not be found. Error loading "C:\\x\\torch\\lib\\caffe2_detectron_ops_gpu.dll" or one of its dependencies.',
    ),
    (
        "oom",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; 6.21 GiB already allocated)",
    ),
    ("oom", "RuntimeError: CUDA error: out of memory"),
    ("oom", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB."),
    (
        "uv-local-version",
        "Because there is no version of torch==2.4.0+cu124 and your project depends on torch==2.4.0+cu124, we can conclude",
    ),
    ("pip-no-match", "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)"),
    (
        "glibc",
        "ImportError: /lib64/libc.so.6: version `GLIBC_2.28' not found (required by /x/torch/lib/libtorch_cpu.so)",
    ),
    ("abi-generic", "ImportError: /x/xformers/_C.so: undefined symbol: _ZNK3c105Error4whatEv"),
    ("abi-generic", "OSError: /x/torchaudio/lib/libtorchaudio.so: undefined symbol: _ZN5torch8autograd4NodeE"),
    ("abi-generic", "undefined symbol: _ZN3c1017RegisterOperatorsD1Ev"),
    (
        "abi-cxx11",
        "undefined symbol: _ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    ),
    ("abi-generic", "undefined symbol: _ZTVN5torch3jit6MethodE"),
    ("abi-cxx11", "undefined symbol: _ZN3c106detail14torchCheckFailEPKcS2_jRKSs"),
    (
        "load-cuda",
        "RuntimeError: Attempting to deserialize object on an XPU device but torch.xpu.is_available() is False.",
    ),
    (
        "weights-only",
        "_pickle.UnpicklingError: Weights only load failed. In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load`",
    ),
    ("numpy2-abi", "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.1.3 as it may crash."),
    (
        "addr-in-use",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
    ),
    (
        "nccl-internal",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1691, internal error - please report this issue to the NCCL developers, NCCL version 2.21.5\nncclInternalError: Internal check failed.",
    ),
    (
        "nccl-internal",
        "NCCL error in: ../torch/csrc/ProcessGroupNCCL.cpp:1331, invalid usage (run with NCCL_WARN=INFO for details), NCCL version 2.14.3\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 0 and rank 1 both on CUDA device 3b000",
    ),
    ("aten-backend", "NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA' backend."),
    ("bad-device-str", "RuntimeError: Expected one of cpu, cuda, mps, meta device type at start of device string: gpu"),
    ("bad-device-str", "RuntimeError: Invalid device string: 'gpu:0'"),
    ("cuda-to-numpy", "TypeError: can't convert mps:0 device type tensor to numpy. Use Tensor.cpu()"),
    ("compile-py311", "RuntimeError: Dynamo is not supported on Python 3.12+"),
    ("compile-py311", "RuntimeError: Python 3.12+ not yet supported for torch.compile"),
    (
        "cublas",
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb)`",
    ),
    ("dataloader-bus", "RuntimeError: DataLoader worker (pid(s) 17, 18) exited unexpectedly"),
    ("no-cuda-build", "AssertionError: Torch not compiled with CUDA enabled"),
    (
        "state-dict",
        "RuntimeError: Error(s) in loading state_dict for BertForSequenceClassification:\n\tsize mismatch for classifier.weight: copying a param with shape",
    ),
    (
        "nvjitlink",
        "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12",
    ),
    ("gpu-no-kernels", "Your installed torch==2.15.0+cu132 does not include kernels for this GPU."),
    ("triton-missing", "ModuleNotFoundError: No module named 'triton'"),
    (
        "mps-notimpl",
        "NotImplementedError: The operator 'aten::isin.Tensor_Tensor_out' is not currently implemented for the MPS device.",
    ),
    ("no-driver", 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'),
    (
        "getdevicecount",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 2: out of memory",
    ),
    (
        "uv-abi-tag",
        "Because torch==2.3.1 has no wheels with a matching Python ABI tag (e.g., `cp314`) and you require torch==2.3.1",
    ),
    ("uv-abi-tag", "torch>=2.1.0,<=2.2.2 has no wheels with a matching Python version tag (e.g., `cp313`)"),
    ("omp15", "OMP: Error #15: Initializing libiomp5md.dll, but found libiomp5md.dll already initialized."),
    ("input-bias-type", "RuntimeError: Input type (float) and bias type (struct c10::Half) should be the same"),
    (
        "input-weight-type",
        "RuntimeError: Input type (torch.cuda.HalfTensor) and weight type (torch.HalfTensor) should be the same",
    ),
    (
        "zip-truncated",
        "RuntimeError: PytorchStreamReader failed reading zip archive: invalid header or archive is corrupted",
    ),
    ("invalid-load-key", "_pickle.UnpicklingError: invalid load key, '\\x1f'."),
    ("invalid-load-key", "_pickle.UnpicklingError: invalid load key, '<'."),
    (
        "cudnn-version",
        "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (8, 9, 2) but found runtime version (8, 5, 0).",
    ),
    (
        "cuda-mismatch",
        "RuntimeError: The detected CUDA version (13.0) mismatches the version that was used to compile\nPyTorch (12.6). Please make sure to use the same CUDA versions.",
    ),
]

_ALIKE = [
    "KeyError: 'device'",
    "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'",
    "ValueError: operands could not be broadcast together with shapes (3,4) (4,3)",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x784 and 512x10)",
    "ModuleNotFoundError: No module named 'torch_geometric'",
    "ModuleNotFoundError: No module named 'torchmetrics'",
    "ModuleNotFoundError: No module named 'pandas'",
    "ImportError: cannot import name 'soft_unicode' from 'markupsafe'",
    "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://example.org/model.bin",
    "OSError: [Errno 98] Address already in use",
    "Error: listen EADDRINUSE: address already in use :::3000",
    "ERROR: No matching distribution found for torchmetrics==99",
    "ERROR: Could not find a version that satisfies the requirement flask==99 (from versions: 1.0, 2.0)",
    "Successfully installed torch-2.13.0 nvidia-cublas-cu12-12.6.4.1 nvidia-cudnn-cu12-9.10.2.21",
    "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
    "ImportError: libsndfile.so.1: cannot open shared object file",
    "FutureWarning: You are using `torch.load` with `weights_only=False` (the current default value), which uses the default pickle module implicitly.",
    "UserWarning: The PyTorch API of nested tensors is in prototype stage",
    "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0",
    "IndexError: index 10 is out of bounds for dimension 0 with size 10",
    "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    "undefined symbol: PyFloat_Type",
    "ImportError: foo.so: undefined symbol: _ZN5boost6system",
    "MemoryError: Unable to allocate 4.00 GiB for an array",
    "torch.cuda.is_available() is False; using the CPU",
    "CUDA available: False",
    "INFO: loading weights only from checkpoint",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "_pickle.UnpicklingError: pickle data was truncated",
    "numpy.linalg.LinAlgError: Singular matrix",
    "==== 12 passed, 1 warning in 3.2s ====",
    "ConnectionRefusedError: [Errno 111] Connection refused",
    "error: subprocess-exited-with-error",
    "sqlalchemy.exc.OperationalError: (psycopg2.OperationalError) could not connect",
    "No module named 'torchvision'",
    "PermissionError: [Errno 13] Permission denied: '/dev/shm/x'",
    "torch.OutOfMemoryError was not raised",
    "docker: Error response from daemon: pull access denied",
    "torchrun --nproc_per_node=2 train.py  # address: localhost:29500",
    "OSError: [WinError 2] The system cannot find the file specified",
    "[WinError 1114] A dynamic link library (DLL) initialization routine failed",
    "CUDA error: invalid argument",
    "RuntimeError: Distributed training on nccl backend started",
    "Using CUDA out of order queue",
]


@pytest.mark.parametrize(("identity", "text"), _SAME)
def test_other_wordings_are_the_same_error(identity: str, text: str) -> None:
    assert [one.id for one in explain_text(text)][:1] == [identity]


@pytest.mark.parametrize("text", _ALIKE)
def test_what_looks_alike_is_not_explained(text: str) -> None:
    assert explain_text(text) == []


def _first(text: str) -> tuple[str, ...]:
    one = explain_text(text)[0]
    return (one.id, *one.seen, *one.commands)


def test_a_gpu_that_is_too_new_gets_a_build_that_runs_on_it() -> None:
    told = _first(
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation."
    )
    assert "the GPU (GeForce RTX 5090) has compute capability 12.0" in told
    assert any("whl/cu13" in line for line in told)


def test_a_gpu_that_is_too_old_gets_the_last_line_that_has_it() -> None:
    told = _first(
        "NVIDIA GeForce GTX 1080 with CUDA capability sm_61 is not compatible with the current PyTorch installation."
    )
    assert any("torch==2.14.1 --index-url https://download.pytorch.org/whl/cu126" in line for line in told)


def test_the_driver_decides_the_build() -> None:
    told = _first("UserWarning: The NVIDIA driver on your system is too old (found version 11040).")
    assert "driver level 11040 is CUDA 11.4" in told
    assert any("whl/cu118" in line for line in told)


def test_the_cause_comes_before_its_wrapper_and_the_consequence_last() -> None:
    log = """OSError: libcudart.so.12: cannot open shared object file: No such file or directory

The above exception was the direct cause of the following exception:

OSError: Could not load this library: /x/torchaudio/lib/libtorchaudio.so
RuntimeError: operator torchvision::nms does not exist
"""
    assert [one.id for one in explain_text(log)] == ["lib-cudart-missing", "tv-could-not-load", "nms-missing"]


def test_an_error_comes_before_a_warning() -> None:
    log = """UserWarning: Failed to initialize NumPy: _ARRAY_API not found
Traceback (most recent call last):
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""
    assert [one.id for one in explain_text(log)] == ["oom", "numpy2-abi"]


def test_an_error_that_the_program_outlived_comes_after_the_one_that_ended_it() -> None:
    going_on = "\n".join(f"step {i}" for i in range(2000))
    log = f"RuntimeError: Numpy is not available\n{going_on}\nRuntimeError: CUDA error: device-side assert triggered\n"
    assert [one.id for one in explain_text(log)] == ["device-assert", "numpy-unavailable"]


def test_source_code_that_raises_is_no_error() -> None:
    assert explain_text('    raise AssertionError("Torch not compiled with CUDA enabled")') == []


def test_a_message_that_two_blocks_share_is_counted_once() -> None:
    filler = "x" * 79 + "\n"
    for shift in range(0, 4000, 400):
        log = filler * (12_900 + shift // 80) + "CUDA out of memory. Tried to allocate 2.00 GiB\n" + filler * 400
        (found,) = explain_text(log)
        assert found.count == 1
        assert found.line == 12_901 + shift // 80
