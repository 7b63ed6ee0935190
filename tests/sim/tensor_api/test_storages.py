"""Storages on simulated devices: where they are made, what copies of them are, and what they count."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate

pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")


def test_a_storage_is_made_on_the_device_that_is_asked_for() -> None:
    with simulate("cuda:2"):
        made = torch.UntypedStorage(600, device="cuda:1")
        assert (made.device, made.is_cuda, made.get_device()) == (torch.device("cuda:1"), True, 1)
        assert torch.cuda.memory_allocated(1) == 1024
        assert torch.UntypedStorage([1, 2], device="cuda").tolist() == [1, 2]
        assert torch.UntypedStorage(3).device.type == "cpu"
    assert torch.UntypedStorage(3).device.type == "cpu"


def test_a_typed_storage_of_a_device_is_there() -> None:
    with simulate("cuda:2"):
        made = torch.cuda.FloatStorage(3)
        assert isinstance(made, torch.cuda.FloatStorage)
        assert not isinstance(made, torch.FloatStorage)
        assert made.device == torch.device("cuda:0")
        assert made.cpu().device.type == "cpu"
        assert torch.FloatStorage([1.0]).cuda().type() == "torch.cuda.FloatStorage"
        assert torch.cuda.FloatTensor(made).device == torch.device("cuda:0")


def test_a_copy_between_storages_leaves_both_where_they_are() -> None:
    with simulate("cuda:2"):
        host, card = torch.UntypedStorage([1, 2, 3]), torch.UntypedStorage(3, device="cuda:1")
        card.copy_(host)
        assert card.tolist() == [1, 2, 3]
        assert (host.device.type, card.device) == ("cpu", torch.device("cuda:1"))
        host.copy_(card)
        assert host.device.type == "cpu"


def test_a_storage_that_is_resized_counts_as_much_as_it_holds() -> None:
    with simulate("cuda:2"):
        tensor = torch.zeros(1024, device="cuda")
        tensor.untyped_storage().resize_(0)  # as FSDP frees a gathered parameter
        assert torch.cuda.memory_allocated() == 0
        tensor.untyped_storage().resize_(4096)
        assert torch.cuda.memory_allocated() == 4096
        assert tensor.device == torch.device("cuda:0")


def test_an_out_argument_that_grows_counts_as_much_as_it_holds() -> None:
    with simulate("cuda:2"):
        out = torch.empty(0, device="cuda")
        torch.cat([torch.ones(512, device="cuda")] * 2, out=out)
        assert torch.cuda.memory_allocated() == 4096


def test_a_tensor_does_not_take_the_storage_of_another_device() -> None:
    with (
        simulate("cuda:2"),
        pytest.raises(RuntimeError, match='on device "cuda:0" to a storage on different device "cpu"'),
    ):
        torch.empty(0, device="cuda").set_(torch.FloatStorage(3))


def test_what_is_on_a_card_is_shared() -> None:
    with simulate("cuda:2"):
        assert torch.ones(3, device="cuda").is_shared()
        assert not torch.ones(3).is_shared()


@pytest.mark.worlds("none")
def test_without_a_device_there_is_no_storage_on_it() -> None:
    with pytest.raises((AssertionError, RuntimeError)):
        torch.UntypedStorage(3, device="cuda")
