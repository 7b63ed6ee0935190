"""Functions of `torch._C` that only a build for the accelerator has."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import NotSimulated, simulate

cpu_build = pytest.mark.skipif(torch.cuda._is_compiled(), reason="this build has them")


@cpu_build
def test_what_the_build_lacks_is_there_and_refuses_to_be_called() -> None:
    with simulate("cuda:2"):
        assert hasattr(torch._C, "_cuda_CUDAAllocator_AllocatorState")
        with pytest.raises(NotSimulated, match="_cuda_record_memory_history"):
            torch.cuda.memory._record_memory_history()
        kernel = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x) { return x + x; }")
        with pytest.raises(NotSimulated, match="jiterator"):
            kernel(torch.ones(3, device="cuda"))
        assert not hasattr(torch._C, "_xpu_getCurrentRawStream")
        assert not hasattr(torch._C, "no_such_name")
    assert not hasattr(torch._C, "_cuda_record_memory_history")


@pytest.mark.worlds("cuda:2")
def test_a_raw_stream_is_that_of_the_current_stream() -> None:
    stream = torch.cuda.Stream(1)
    with torch.cuda.stream(stream):
        assert torch._C._cuda_getCurrentRawStream(1) == stream.cuda_stream
    torch.cuda._sleep(100)
