"""Group A: tensors and modules moved to CUDA by name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.choice import device_value
from anydevice.rules.cuda_calls import is_free
from anydevice.rules.loaded import is_map_location
from anydevice.rules.receiver import owner_of_cuda
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.module import Module
from anydevice.source.syntax import field, same, string_value, text, walk


class HardcodedCudaCall(PythonRule):
    """`x.cuda()` moves a tensor or module to an NVIDIA (or ROCm) GPU and raises on every other machine.

    Instead: `x.to(device)`, with one device chosen once. An index (`x.cuda(1)`) is kept where devices have one.
    `Variable(x).cuda(async=True)`, which no Python since 3.7 can parse, is read and mended too.

    References: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html
    """

    code = "ADA01"
    name = "hardcoded-cuda-call"
    summary = "`.cuda()` runs on CUDA only"
    anchors = ("cuda",)
    examples = (
        Example("a module", "import torch\nmodel.cuda()\n", "import torch\nmodel.to(device)\n"),
        Example(
            "a chain",
            "import torch\nx = torch.rand(2).cuda().float()\n",
            "import torch\nx = torch.rand(2).to(device).float()\n",
        ),
        Example("an index", "import torch\nx = x.cuda(args.gpu)\n", "import torch\nx = x.to(device_for(args.gpu))\n"),
        Example("index 0", "import torch\nx = x.cuda(0)\n", "import torch\nx = x.to(device)\n"),
        Example(
            "the keyword of old Python",
            "import torch\nx = x.cuda(async=True)\n",
            "import torch\nx = x.to(device, non_blocking=True)\n",
        ),
        Example(
            "non_blocking by position",
            "import torch\nx = x.cuda(None, True)\n",
            "import torch\nx = x.to(device, non_blocking=True)\n",
        ),
        Example(
            "a device that the file defines",
            'import torch\ndev = torch.device("cuda")\nx = x.cuda()\n',
            'import torch\ndev = torch.device("cuda")\nx = x.to(dev)\n',
        ),
        Example(
            "a device that is defined after the first call",
            'import torch\ndef move(x):\n    return x.cuda()\nx = move(x)\ndevice = torch.device("cuda")\n',
            'import torch\ndef move(x):\n    return x.to(DEVICE)\nx = move(x)\ndevice = torch.device("cuda")\n',
        ),
        Example(
            "perhaps a class of one's own",
            "import torch\nclass Pair:\n    def cuda(self):\n        return self\ndef f(x):\n    return x.cuda()\n",
            "import torch\nclass Pair:\n    def cuda(self):\n        return self\n"
            'def f(x):\n    return x.to(device) if hasattr(x, "to") else x.cuda()\n',
        ),
        Example("a method that is passed on", "import torch\nxs = map(torch.Tensor.cuda, xs)\n"),
    )
    leaves = (
        Leave("import cupy\ncupy.cuda.Stream()\n", "cupy is not torch"),
        Leave("from numba import cuda\n@cuda.jit\ndef f(x): pass\n", "numba is not torch"),
        Leave("class Timer:\n    def cuda(self):\n        return 1\n\nTimer().cuda()\n", "a method of one's own"),
        Leave('"""x.cuda()"""\n# x.cuda()\nprint("x.cuda()")\n', "prose"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        attribute = site.leaf.parent
        if (
            attribute is None
            or attribute.type != "attribute"
            or site.leaf.id != getattr(field(attribute, "attribute"), "id", None)
        ):
            return
        if site.call is None and site.method_call is None:
            yield from self._reference(site, attribute)
            return
        call = site.method_call
        if call is None or call.receiver is None:
            return
        if _maps_location(call.node):
            return  # of a checkpoint: ADJ02 replaces the whole function
        owner = owner_of_cuda(site.context, call.receiver)
        if owner == "foreign":
            return
        if overridden(site.module, call.node) is not None:
            return  # CudaOverride mends the method as a whole
        if is_map_location(call.node):
            return  # a storage, which has no such `to`: HardcodedMapLocation mends the function as a whole
        if owner == "unknown" and _is_asked_for_to(call):
            return
        yield self._moved(site, call, owner)

    def _moved(self, site: Site, call: Call, owner: str) -> Finding:
        context = site.context
        if call.has_star or context.is_scripted(call.node):
            return context.finding(
                self, call.node, "write `.to(device)`; the device cannot be told from here, pass it in", Safety.MANUAL
            )
        where, edits = _destination(site, call)
        blocking = call.argument(1, "non_blocking", "async")
        others = [a for a in call.arguments if a.name not in (None, "device", "non_blocking", "async")]
        arguments = [where]
        if blocking is not None:
            arguments.append(f"non_blocking={text(blocking.value)}")
        arguments += [text(a.node) for a in others]
        start, moved, safety = site.leaf.start_byte, f"to({', '.join(arguments)})", Safety.SAFE
        message = f"`{_shortened(text(call.function))}()` runs on CUDA only; write `.to({where})`"
        if owner == "unknown":
            message += " (unless this is a class of the project with a `cuda` method of its own)"
            owned = text(call.receiver) if call.receiver is not None else ""
            if owned.replace(".", "").replace("_", "").isalnum():  # a name, which may be read twice
                opening, closing = ("", "") if is_free(call.node) else ("(", ")")
                moved = f'{opening}{owned}.{moved} if hasattr({owned}, "to") else {text(call.node)}{closing}'
                start = call.node.start_byte
            else:
                safety = Safety.UNSAFE
        edit = site.module.edit(start, call.node.end_byte, moved)
        return context.finding(self, call.node, message, safety, [edit, *edits])

    def _reference(self, site: Site, attribute: Node) -> Iterator[Finding]:
        if site.module.qualname(attribute) in ("torch.Tensor.cuda", "torch.nn.Module.cuda"):
            yield site.context.finding(
                self, attribute, "the method itself is passed on: pass `lambda x: x.to(device)` instead", Safety.MANUAL
            )


def _is_asked_for_to(call: Call) -> bool:
    """Whether a call is the last resort of `x.to(device) if hasattr(x, "to") else x.cuda()`."""
    choice, owned = call.node.parent, call.receiver
    question = choice.named_child(1) if choice is not None and choice.type == "conditional_expression" else None
    return question is not None and owned is not None and text(question) == f'hasattr({text(owned)}, "to")'


def _destination(site: Site, call: Call) -> tuple[str, tuple[Edit, ...]]:
    """The argument for `.to`, and the edits it needs."""
    context, placement = site.context, site.context.placement
    argument = call.argument(0, "device")
    value = argument.value if argument is not None else None
    if value is None or value.type == "none" or (text(value) == "0" and not context.facts.sets_device):
        device = placement.device(call.node)
        return device.expr, device.edits
    literal = string_value(value)
    if literal is not None:
        index = literal.partition(":")[2]
        if index and (index != "0" or context.facts.sets_device):
            expression = placement.indexed(call.node, index)
            return expression.text, expression.edits
        device = placement.device(call.node)
        return device.expr, device.edits
    if value.type == "identifier":
        bindings = context.module.names.lookup(value)
        if bindings and all(b.value is not None and device_value(context.module, b.value) for b in bindings):
            return text(value), ()
    expression = placement.indexed(call.node, text(value))
    return expression.text, expression.edits


class CudaOverride(PythonRule):
    """A module's own `def cuda(self)` moves what `nn.Module` does not know of, and `.to(device)` never calls it.

    Instead: override `.to`, which all moves of the rewritten code go through; best of all register what it moves as a
    buffer or submodule, and drop the override.
    """

    code = "ADA04"
    name = "cuda-override"
    summary = "`.to()` does not call this `cuda` override"
    anchors = ("cuda",)
    examples = (
        Example(
            "an override",
            "class A(B):\n    def cuda(self):\n        super(A, self).cuda()\n        self.h = self.h.cuda()\n        return self\n",
            "class A(B):\n    def to(self, *args, **kwargs):\n        super(A, self).to(*args, **kwargs)\n"
            "        self.h = self.h.to(*args, **kwargs)\n        return self\n",
        ),
        Example(
            "with a device",
            "class A(B):\n    def cuda(self, device=None):\n        self.h = self.h.cuda(device)\n        return super().cuda(device)\n",
            "class A(B):\n    def to(self, *args, **kwargs):\n        self.h = self.h.to(*args, **kwargs)\n"
            "        return super().to(*args, **kwargs)\n",
        ),
        Example(
            "beside an override of `to`",
            "class A(B):\n    def to(self, d):\n        return self\n    def cuda(self):\n        return super().cuda()\n",
        ),
    )
    leaves = (Leave("class Batch:\n    def cuda(self):\n        return self\n", "no module"),)

    def check(self, site: Site) -> Iterator[Finding]:
        method = site.leaf.parent
        if method is None or method.type != "function_definition" or not same(field(method, "name"), site.leaf):
            return
        if overridden(site.module, field(method, "body") or method) is None:
            return
        edits = self._edits(site, method)
        message = "`.to()` does not call this override; override `to(self, *args, **kwargs)` instead"
        yield site.context.finding(self, site.leaf, message, Safety.SAFE if edits else Safety.MANUAL, edits or ())

    def _edits(self, site: Site, method: Node) -> list[Edit] | None:
        module = site.module
        parameters, owner = field(method, "parameters"), module.class_(method)
        if parameters is None or owner is None or re.search(r"def to\(", text(owner)):
            return None
        names = [text(p).split("=")[0].split(":")[0].strip() for p in parameters.named_children]
        if not names or len(names) > 2:
            return None
        edits = [module.replace(site.leaf, "to"), module.replace(parameters, f"({names[0]}, *args, **kwargs)")]
        uses = 0
        for node in walk(method):
            if (
                node.type == "identifier"
                and text(node) in names[1:]
                and node.parent is not None
                and node.parent.type == "argument_list"
            ):
                uses -= 1
            if node.type != "call" or Call(node).method != "cuda":
                continue
            call = Call(node)
            if any(text(a.value) not in names[1:] for a in call.arguments):
                return None
            uses += len(call.arguments)
            name = field(call.function, "attribute")
            if name is None:
                return None
            given = "(*args, **kwargs)"
            if not text(call.receiver or node).startswith(("super(", names[0])):
                return None
            edits += [module.replace(name, "to"), module.replace(call.argument_list, given)]
        return edits if uses == 0 else None


def _shortened(source: str) -> str:
    """The end of a long expression, on one line."""
    line = " ".join(source.split())
    return line if len(line) <= 40 else f"...{line[-37:]}"


def _maps_location(node: Node) -> bool:
    """Whether a call is the body of `lambda storage, loc: storage.cuda()`."""
    function = node.parent
    if function is None or function.type != "lambda" or function.parent is None:
        return False
    parameters = field(function, "parameters")
    return (
        parameters is not None
        and parameters.named_child_count == 2
        and (function.parent.type == "argument_list" or text(function.parent).startswith("map_location"))
    )


def overridden(module: Module, node: Node) -> Node | None:
    """The `def cuda` of a module class around `node`: one that calls its base's `cuda`."""
    method = module.function(node)
    name = field(method, "name") if method is not None else None
    if method is None or name is None or text(name) != "cuda" or module.class_(method) is None:
        return None
    return method if re.search(r"super\([^)]*\)\.cuda\(|\w\.cuda\(self\b", text(method)) else None


class IntegerDevice(PythonRule):
    """`x.to(0)` and `torch.device(0)` mean accelerator number 0, and fail where there is none.

    Instead: the chosen device, or `torch.device(device.type, index)` where there are several.
    """

    code = "ADA02"
    name = "integer-device"
    summary = "an integer given as a device fails without an accelerator"
    anchors = ("to", "device")
    needs = (
        (
            r"\.to\(\s*(?:device\s*=\s*)?(?:\d+\s*[,)]|[\w.]*(?:(?:rank|gpu|gpu_id|RANK|index)\s*[,)]|(?:ids|gpus|gpu|list)\[))",
            r"\.device\(\s*(?:\d|[\w.]*(?:rank|gpu|ids|gpus|list)\b)",
        ),
    )
    examples = (
        Example("a literal", "import torch\nmodel.to(0)\n", "import torch\nmodel.to(device)\n"),
        Example("a literal index", "import torch\nmodel.to(1)\n", "import torch\nmodel.to(device_for(1))\n"),
        Example("a rank", "import torch\nmodel.to(local_rank)\n", "import torch\nmodel.to(device_for(local_rank))\n"),
        Example("a device made of one", "import torch\nd = torch.device(0)\n", "import torch\nd = device\n"),
        Example(
            "the first of a list",
            "import torch\nnet.to(gpu_ids[0])\n",
            "import torch\nnet.to(device_for(gpu_ids[0]))\n",
        ),
    )
    leaves = (
        Leave("import torch\nx.to(device)\nx.to(torch.float32)\nx.to(other)\n", "not known to be an integer"),
        Leave('import torch\ngpu = "cuda:%d" % n if n >= 0 else "cpu"\nx = x.to(gpu)\n', "the name of a device"),
        Leave("jump.to(1, 2)\n", "not torch"),
    )
    _RANKS = frozenset({"rank", "local_rank", "gpu", "gpu_id", "LOCAL_RANK", "device_index"})
    _NAMED = re.compile(r"""["'](?:cpu|cuda)\b|\bdevice\(|\b_?(?:device_for|indexed_device)\(""")
    _LISTS = frozenset({"gpu_ids", "device_ids", "gpus", "gpu_list", "gpu"})

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.method_call if site.word == "to" else site.call
        if call is None or (site.word == "device" and site.qualname != "torch.device"):
            return
        argument = call.argument(0, "device")
        if argument is None or argument.starred or len(call.positional) > 1:
            return
        if not self._is_integer(argument.value) or self._is_named(site, argument.value):
            return
        if not (site.module.data.find(b"torch") >= 0):
            return
        context, value = site.context, text(argument.value)
        if value == "0" and not context.facts.sets_device:
            device = context.device(call.node)
            where, edits = device.expr, device.edits
        else:
            expression = context.placement.indexed(call.node, value)
            where, edits = expression.text, expression.edits
        node = call.node if site.word == "device" else argument.value
        yield context.finding(
            self,
            call.node,
            f"device `{value}` needs an accelerator; write `{where}`",
            Safety.SAFE,
            [site.module.replace(node, where), *edits],
        )

    def _is_integer(self, value: Node) -> bool:
        if value.type == "integer":
            return True
        if value.type == "subscript" and (listed := field(value, "value")) is not None:  # gpu_ids[0]
            return text(listed).rsplit(".", 1)[-1] in self._LISTS
        name = text(value).rsplit(".", 1)[-1]
        return value.type in ("identifier", "attribute") and name in self._RANKS

    def _is_named(self, site: Site, value: Node) -> bool:
        """Whether the file shows that a name holds (a list of) devices or their names, no numbers."""
        name = field(value, "value") if value.type == "subscript" else value
        bindings = site.module.names.lookup(name) if name is not None and name.type == "identifier" else ()
        return any(b.value is not None and self._NAMED.search(text(b.value)) for b in bindings)


class DynamicCudaCall(PythonRule):
    """`getattr(x, "cuda")()` and `operator.methodcaller("cuda")` hide a move to CUDA in a string.

    Instead: `x.to(device)`, or a function that does it.
    """

    code = "ADA03"
    name = "dynamic-cuda-call"
    summary = "the `cuda` method is looked up by name"
    text_anchors = ("cuda",)
    examples = (
        Example("getattr", 'import torch\nmove = getattr(x, "cuda")\n'),
        Example("methodcaller", 'import operator\nmove = operator.methodcaller("cuda")\n'),
    )
    leaves = (Leave('import torch\nif hasattr(x, "cuda"):\n    pass\n', "only asks"),)
    _LOOKUPS = frozenset({"getattr", "methodcaller", "operator.methodcaller", "__getattribute__"})

    def check(self, site: Site) -> Iterator[Finding]:
        arguments = site.leaf.parent
        call = arguments.parent if arguments is not None and arguments.type == "argument_list" else None
        if call is None or call.type != "call" or string_value(site.leaf) != "cuda":
            return
        function = field(call, "function")
        if function is not None and (text(function) in self._LOOKUPS or text(function).endswith(".__getattribute__")):
            yield site.context.finding(
                self, call, "the `cuda` method is looked up by name: call `x.to(device)` instead", Safety.MANUAL
            )
