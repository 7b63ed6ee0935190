"""The pytest plugin: tests in simulated worlds. Neither PyTorch nor the simulator is loaded until a test asks for a world.

`--anydevice cuda:2` runs the whole session in a world, collection included; `@pytest.mark.worlds("none", "cuda:2")`
runs a test once in each; the fixture `simulate` is `anydevice.sim.simulate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

import pytest

from anydevice.worlds import parse

if TYPE_CHECKING:
    from anydevice.sim import Simulation

_session = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--anydevice`."""
    group = parser.getgroup("anydevice", "simulated accelerators")
    group.addoption(
        "--anydevice",
        metavar="WORLD",
        help="run the session as if on another machine: none, cuda, cuda:2 (two devices), rocm, mps, xpu",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker, and enter the world of the session before anything is collected."""
    config.addinivalue_line("markers", "worlds(*names): run the test once in each of these simulated worlds")
    world = config.getoption("--anydevice")
    if world is None:
        return
    _check([world], "--anydevice")
    from anydevice.sim import simulate

    config.stash[_session] = ExitStack()
    config.stash[_session].enter_context(simulate(world))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the world of the session."""
    if _session in config.stash:
        config.stash[_session].close()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say in which world the session runs."""
    world = config.getoption("--anydevice")
    return None if world is None else f"anydevice: simulated world {parse(world)}"


@pytest.fixture(scope="session")
def simulate() -> Callable[..., AbstractContextManager[Simulation]]:
    """`anydevice.sim.simulate`: `with simulate("cuda:2"): ...`."""
    from anydevice.sim import simulate

    return simulate


@pytest.fixture(autouse=True)
def _anydevice_world(request: pytest.FixtureRequest) -> Iterator[None]:
    """The world of a marked test. It applies to every test, since pytest makes such fixtures before all others."""
    if not hasattr(request, "param"):
        yield
        return
    from anydevice.sim import simulate

    with simulate(request.param):
        yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once in each world that it is marked with; its fixtures of function scope are made inside."""
    marker = metafunc.definition.get_closest_marker("worlds")
    if marker is None:
        return
    _check(marker.args, f"the mark 'worlds' of {metafunc.definition.nodeid}")
    metafunc.parametrize("_anydevice_world", marker.args, indirect=True, ids=[str(name) for name in marker.args])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse the mark where pytest cannot run a test more than once, rather than pass without a world."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if item.get_closest_marker("worlds") and "_anydevice_world" not in parameters:
            raise pytest.UsageError(
                f"{item.nodeid}: the mark 'worlds' needs a test function; in a unittest.TestCase write "
                "'with anydevice.sim.simulate(...)' instead"
            )


def _check(worlds: object, where: str) -> None:
    if not worlds:
        raise pytest.UsageError(f'{where} names no world; write for instance @pytest.mark.worlds("none", "cuda:2")')
    for world in worlds if isinstance(worlds, (list, tuple)) else ():
        try:
            parse(world)
        except (ValueError, AttributeError) as error:
            raise pytest.UsageError(f"{where}: {error}") from None
