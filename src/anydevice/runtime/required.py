"""`gpu_required`: functions that say clearly, when they are called, that they need an accelerator that is not there."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar, overload

from anydevice.runtime.choice import DeviceUnavailable
from anydevice.runtime.device import get_device

F = TypeVar("F", bound=Callable[..., Any])


@overload
def gpu_required(function: F, /) -> F: ...
@overload
def gpu_required(*kinds: str, min_free_memory: int | None = ...) -> Callable[[F], F]: ...
def gpu_required(*kinds: Any, min_free_memory: int | None = None) -> Any:
    """Refuse to run a function where no accelerator can be used. It is looked for at each call, never at import.

    Works on functions, methods (also class and static ones), coroutine functions, generators and asynchronous
    generators, and on classes, where making an object is what is refused.

    Args:
        kinds: `@gpu_required` takes any accelerator, `@gpu_required("cuda", "xpu")` one of these.
        min_free_memory: bytes that must be free on it.

    Raises:
        DeviceUnavailable: at the call, or for generators when the first value is asked for.
    """
    if len(kinds) == 1 and not isinstance(kinds[0], str):
        return _guarded(kinds[0], (), None)
    return lambda function: _guarded(function, kinds, min_free_memory)


def _guarded(function: Any, kinds: tuple[str, ...], min_free_memory: int | None) -> Any:
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(_guarded(function.__func__, kinds, min_free_memory))
    name = getattr(function, "__qualname__", repr(function))

    def check() -> None:
        _check(name, kinds, min_free_memory)

    if isinstance(function, type):
        return _guarded_class(function, check)
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def values(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            check()
            inner = function(*args, **kwargs)
            try:
                value = await inner.asend(None)
                while True:
                    try:
                        sent = yield value
                    except Exception as error:
                        value = await inner.athrow(error)
                    else:
                        value = await inner.asend(sent)
            except StopAsyncIteration:
                return
            finally:
                await inner.aclose()

        return values
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def items(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            check()
            return (yield from function(*args, **kwargs))

        return items
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            check()
            return await function(*args, **kwargs)

        return awaited

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        check()
        return function(*args, **kwargs)

    return called


def _guarded_class(cls: Any, check: Callable[[], None]) -> Any:
    begin = cls.__init__

    @functools.wraps(begin)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        check()
        begin(self, *args, **kwargs)

    cls.__init__ = __init__
    return cls


def _check(name: str, kinds: tuple[str, ...], min_free_memory: int | None) -> None:
    if kinds:
        try:
            get_device(kinds, min_free_memory=min_free_memory)
        except DeviceUnavailable as error:
            raise DeviceUnavailable(f"{name}() needs {' or '.join(kinds)}: {error}") from None
        return
    choice = get_device(min_free_memory=min_free_memory, explain=True)
    if choice.device.type == "cpu":
        seen = "; ".join(
            f"{candidate.kind}: {candidate.objection}" for candidate in choice.considered if candidate.objection
        )
        raise DeviceUnavailable(
            f"{name}() needs an accelerator, and this process would use the CPU ({seen or choice.reason})"
        )
