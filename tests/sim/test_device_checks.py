"""What is read from PyTorch's own list of operators."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from anydevice.sim import device_checks


@pytest.mark.parametrize(
    ("name", "overload", "method"),
    [
        ("aten::addmm", "", "addmm"),
        ("aten::addmm", "out", "addmm_out_out"),
        ("aten::index_select", "", "_index_select"),
        ("aten::cat", "", "cat"),
        ("aten::gather", "", "gather"),
        ("aten::native_layer_norm", "", "_native_layer_norm"),
        ("aten::bincount", "", "_bincount"),
        ("aten::nextafter", "", "nextafter"),
    ],
)
def test_guard_has_the_name_that_users_report(name: str, overload: str, method: str) -> None:
    assert device_checks.method_of(name, overload) == method


@pytest.mark.parametrize(
    ("name", "overload"),
    [("aten::add", "Tensor"), ("aten::where", "self"), ("aten::index", "Tensor"), ("aten::copy_", ""),
     ("aten::embedding", ""), ("mine::operator", "")],
)  # fmt: skip
def test_no_guard_where_the_list_says_so_or_there_is_no_cuda_kernel(name: str, overload: str) -> None:
    assert device_checks.method_of(name, overload) is None


def test_kernels_by_dispatch_key() -> None:
    assert not device_checks.has_kernel("aten::histogram", "bin_ct", "CUDA")
    assert device_checks.has_kernel("aten::bincount", "", "CUDA")
    assert device_checks.has_kernel("mine::operator", "", "CUDA")


def test_without_the_list_nothing_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_checks, "_source", lambda: "")
    for cached in (device_checks._entries, device_checks._guarded):
        cached.cache_clear()
    try:
        assert device_checks.method_of("aten::addmm", "") is None
        assert device_checks.has_kernel("aten::histogram", "bin_ct", "CUDA")
    finally:
        for cached in (device_checks._entries, device_checks._guarded):
            cached.cache_clear()
