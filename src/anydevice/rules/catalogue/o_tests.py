"""Group O, eighth part: tests that are skipped without CUDA, and code kept in strings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, enclosing, field, same, string_value, text

_CUDA = re.compile(r"cuda|\bgpus?\b|(?:HAS|HAVE|TEST|NO|USE|WITH|has|no)_?gpu", re.I)
_ADVICE = (
    "without CUDA this test is skipped, and a run on the CPU looks green; decide where it must run: usual: use `device` in its body and "
    "drop the skip, or skip on `torch.accelerator.is_available()` where it is about an accelerator"
)
# What else decides: a decorator of this name, and what stands for it on any accelerator.
_DECORATORS = {
    "require_torch_gpu": "require_torch_accelerator",
    "require_torch_multi_gpu": "require_torch_multi_accelerator",
    "require_torch_non_multi_gpu": "require_torch_non_multi_accelerator",
    "slow_or_require_torch_gpu": "require_torch_accelerator",
    "onlyCUDA": "onlyAccelerator",
    "require_cuda": "require_non_cpu",
    "requires_cuda": "",
    "require_gpu": "",
    "requires_gpu": "",
    "skip_if_no_cuda": "",
    "skip_if_no_gpu": "",
    "skipIfNoCuda": "",
    "skipCUDAIf": "",
    "skipIfNoCUDA": "",
    "skip_if_lt_x_gpu": "",
    "needs_cuda": "",
    "needs_gpu": "",
    "cuda_only": "",
    "gpu_test": "",
    "requires_multigpu": "",
}


class CudaOnlyTest(PythonRule):
    """A test is skipped where there is no CUDA: on every other machine, and in most CI, it never runs, silently.

    Reported once per file for each way of skipping.

    Instead: a test of one's own code runs on the device of the machine; only what tests a kernel of CUDA is skipped.

    References: https://docs.python.org/3/library/unittest.html#skipping-tests-and-expected-failures
    """

    code = "ADO50"
    name = "cuda-only-test"
    summary = "a test is silently skipped without CUDA"
    anchors = ("skipIf", "skipUnless", "skipif", "skipTest", "gpu", "cuda", "multi_gpu", *_DECORATORS)
    examples = (
        Example(
            "unittest",
            "import torch, unittest\n\nclass T(unittest.TestCase):\n"
            "    @unittest.skipIf(not torch.cuda.is_available(), 'no CUDA')\n    def test_a(self): pass\n",
        ),
        Example(
            "unless",
            "import unittest\n\n@unittest.skipUnless(TEST_CUDA, 'no CUDA')\nclass T(unittest.TestCase): pass\n",
        ),
        Example(
            "pytest",
            "import pytest, torch\n\n@pytest.mark.skipif(not torch.cuda.is_available(), reason='x')\ndef test_a(): pass\n",
        ),
        Example("a mark", "import pytest\n\n@pytest.mark.gpu\ndef test_a(): pass\n"),
        Example(
            "a condition in the test",
            "def test_a(self):\n    if not torch.cuda.is_available():\n        self.skipTest('no CUDA')\n",
        ),
        Example(
            "a decorator",
            "from transformers.testing_utils import require_torch_gpu\n\n@require_torch_gpu\ndef test_a(): pass\n",
        ),
    )
    leaves = (
        Leave(
            "import pytest, sys\n\n@pytest.mark.skipif(sys.platform == 'win32', reason='cuda')\ndef test_a(): pass\n",
            "another reason",
        ),
        Leave(
            "import pytest, torch\n\n@pytest.mark.skipif(not torch.accelerator.is_available(), reason='x')\ndef test_a(): pass\n",
            "any accelerator",
        ),
        Leave("import pytest\n\n@pytest.mark.slow\ndef test_a(): pass\n", "another mark"),
        Leave(
            "import pytest, torch\n\n@pytest.mark.skipif(torch.cuda.is_available(), reason='x')\ndef test_cpu(): pass\n",
            "runs without CUDA",
        ),
        Leave("def requires_cuda(f):\n    return f\n", "a definition"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.word in _DECORATORS:
            yield from self._decorator(site)
        elif site.word in ("gpu", "cuda", "multi_gpu"):
            yield from self._mark(site)
        elif site.word == "skipTest":
            yield from self._within(site)
        else:
            call = site.call or site.method_call
            condition = call.argument(0, "condition") if call is not None else None
            if (
                call is not None
                and condition is not None
                and _needs_cuda(condition.value, positive=site.word == "skipUnless")
            ):
                yield from self._once(site, call.node, f"{site.word}({text(condition.value)}", "")

    def _decorator(self, site: Site) -> Iterator[Finding]:
        decorator = enclosing(site.leaf, frozenset({"decorator", "argument_list", "block"}))
        if decorator is None or decorator.type != "decorator":
            return
        counterpart = _DECORATORS[site.word]
        yield from self._once(site, decorator, site.word, f" (`@{counterpart}`)" if counterpart else "")

    def _mark(self, site: Site) -> Iterator[Finding]:
        if re.fullmatch(r"(?:pytest\.)?mark\.\w+", text(site.reference)):
            yield from self._once(site, site.reference, text(site.reference), "")

    def _once(self, site: Site, node: Node, written: str, more: str) -> Iterator[Finding]:
        """A finding at the first of the decorators that are written alike."""
        alike = list(re.finditer(rb"(?m)^[ \t]*@[^\n]*?" + re.escape(written.encode()) + rb"(?!\w)", site.module.data))
        if alike and not alike[0].start() <= node.start_byte <= alike[0].end():
            return
        count = f" (and {len(alike) - 1} more)" if len(alike) > 1 else ""
        yield site.context.finding(
            self, node, f"`{text(node).removeprefix('@')[:60]}`{count}: {_ADVICE}{more}", Safety.MANUAL
        )

    def _within(self, site: Site) -> Iterator[Finding]:
        branch = enclosing(site.leaf, frozenset({"if_statement", "function_definition"}))
        condition = field(branch, "condition") if branch is not None and branch.type == "if_statement" else None
        if condition is not None and site.method_call is not None and _needs_cuda(condition, positive=False):
            yield site.context.finding(self, site.method_call.node, _ADVICE, Safety.MANUAL)


def _needs_cuda(condition: Node, *, positive: bool) -> bool:
    """Whether a test is skipped, by this condition, on machines without CUDA. `positive`: the test runs where it holds."""
    source = text(condition)
    if not _CUDA.search(source):
        return False
    negated = bool(re.search(r"\bnot\b|<|==\s*(?:0|False)\b|\bNO_|\bno_", source)) or "capability" in source
    return positive or negated


class CudaTestParameter(PythonRule):
    """A test is run for a list of devices that names CUDA, and fails for it on every other machine.

    Instead: the type of the device that is there; on a CUDA machine the same string, and so the same test names.

    References: https://docs.pytest.org/en/stable/how-to/parametrize.html
    """

    code = "ADO52"
    name = "cuda-test-parameter"
    summary = "a test is run for CUDA by name"
    text_anchors = ("cuda",)
    examples = (
        Example(
            "a list",
            'import pytest, torch\n\n@pytest.mark.parametrize("where", ["cpu", "cuda"])\ndef test_a(where): pass\n',
            'import pytest, torch\n\n@pytest.mark.parametrize("where", ["cpu", device.type])\ndef test_a(where): pass\n',
        ),
        Example(
            "a number",
            'import pytest, torch\n\n@pytest.mark.parametrize("d", ["cpu", "cuda:1"])\ndef test_a(d): pass\n',
        ),
    )
    leaves = (
        Leave('import pytest\n\n@pytest.mark.parametrize("cuda", [1, 2])\ndef test_a(cuda): pass\n', "a name"),
        Leave('import pytest\n\n@pytest.mark.parametrize("x", [1], ids=["cuda"])\ndef test_a(x): pass\n', "an id"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        value = string_value(site.leaf)
        if value is None or not re.fullmatch(r"cuda(?::\d+)?", value):
            return
        inner: Node = site.leaf
        for parent in ancestors(site.leaf):
            if parent.type == "call" and text(Call(parent).function).endswith("parametrize"):
                break
            if parent.type == "keyword_argument" and text(field(parent, "name") or parent) != "argvalues":
                return
            if parent.type == "dictionary" or parent.type.endswith("statement"):
                return
            if parent.type == "call":  # `pytest.param("cuda")` is an argument like any other
                return
            inner = parent if parent.type != "argument_list" else inner
        else:
            return
        names = Call(parent).argument(0, "argnames")
        if names is not None and same(names.value, inner):
            return
        if ":" in value:
            yield site.context.finding(
                self,
                site.leaf,
                f"`{text(site.leaf)}` is one GPU of several; decide where this test runs: usual: skip it where "
                "`torch.accelerator.device_count()` is too small, and write the type of the device there is",
                Safety.MANUAL,
            )
            return
        device = site.context.placement.device(site.leaf)
        yield site.context.finding(
            self,
            site.leaf,
            f"`{text(site.leaf)}` fails this test without CUDA; write `{device.type}`",
            Safety.SAFE,
            [site.module.replace(site.leaf, device.type), *device.edits],
        )


class CodeInString(PythonRule):
    """Code that asks for CUDA is kept in a string and run by `exec`, `eval`, `timeit` or a child `python -c`.

    Strings are never rewritten. Instead: a function, or `.to(device)` in the string with `device` among its names.
    """

    code = "ADO51"
    name = "cuda-code-in-string"
    summary = "code in a string asks for CUDA"
    anchors = ("exec", "timeit", "Timer")
    text_anchors = ("cuda",)
    examples = (
        Example("exec", "import torch\nexec('x = x.cuda()')\n"),
        Example("eval", 'import torch\ny = eval("model.cuda()")\n'),
        Example("a longer text", 'code = """\nimport torch\nx = torch.zeros(2).cuda()\n"""\nexec(code)\n'),
        Example(
            "timeit", "import timeit\ntimeit.timeit('f(x)', setup='import torch; x = torch.ones(2, device=\"cuda\")')\n"
        ),
        Example(
            "a child",
            'import subprocess, sys\nsubprocess.run([sys.executable, "-c", "import torch; torch.cuda.init()"])\n',
        ),
    )
    leaves = (
        Leave('print("x.cuda()")\nlog.info("x.cuda()")\nrun("python", "cuda")\n', "prose"),
        Leave('exec("x = 1")\nmodel.eval()\neval("genotypes.%s" % name)\n', "no CUDA"),
        Leave('cursor.exec("select cuda from x")\n', "no Python"),
    )
    _CODE = re.compile(r"\.cuda\(|\btorch\.cuda\b|[\"']cuda(?::\d+)?[\"']|cuda:\d")
    _RUNNERS = re.compile(
        r"(?:exec|eval|compile|(?:timeit\.)?(?:timeit|repeat|Timer)|(?:\w+\.)*(?:benchmark|utils)\.Timer)\Z"
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.in_string:
            yield from self._string(site, site.leaf)
            return
        if site.call is None or not self._RUNNERS.fullmatch(text(site.call.function)):
            return
        for argument in site.call.arguments:
            value = argument.value
            if value.type == "identifier":
                bindings = site.module.names.lookup(value)
                strings = [b.value for b in bindings if b.value is not None and b.value.type == "string"]
            else:
                strings = [value] if value.type == "string" else []
            if any(self._CODE.search(text(string)) for string in strings):
                yield self._report(site, site.call.node)
                return

    def _string(self, site: Site, string: Node) -> Iterator[Finding]:
        if not self._CODE.search(text(string)[1:-1]):
            return
        for parent in ancestors(string):
            if parent.type == "list":
                siblings = [c for c in parent.named_children if c.end_byte <= string.start_byte]
                if siblings and string_value(siblings[-1]) == "-c":
                    yield self._report(site, string)
                return
            if parent.type == "call":
                call = Call(parent)
                if self._RUNNERS.fullmatch(text(call.function)) and not same(call.function, string):
                    yield self._report(site, parent)
                return
            if parent.type not in ("argument_list", "keyword_argument", "binary_operator", "concatenated_string"):
                return

    def _report(self, site: Site, node: Node) -> Finding:
        return site.context.finding(
            self,
            node,
            "the code in this string asks for CUDA, and strings are not rewritten: write `.to(device)` in it and pass `device` along, or make "
            "a function of it",
            Safety.MANUAL,
        )
