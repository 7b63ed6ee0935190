"""Group O, seventh part: environment variables of CUDA that a program sets, reads, or puts before a command."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, string_value, text

_NAME = "CUDA_VISIBLE_DEVICES"
_TORCH = re.compile(rb"(?m)^(?:import|from)[ \t]+torch\b")
_COMMANDS = re.compile(
    r"(?:^|\.)(?:system|popen|Popen|run|call|check_call|check_output|getoutput|getstatusoutput|spawn|execute|execvp?e?)\Z"
)


class VisibleDevicesInCode(PythonRule):
    """`os.environ["CUDA_VISIBLE_DEVICES"]` chooses among NVIDIA (and ROCm) GPUs; other accelerators do not read it.

    It does no harm elsewhere, so it is kept. What a person decides: an empty value or `-1` forces the CPU on CUDA machines
    only; a value set after torch was imported works only while nothing has asked for a GPU; and other accelerators have
    variables of their own. Other variables of CUDA (`CUDA_LAUNCH_BLOCKING`, `CUDA_DEVICE_ORDER`) are harmless everywhere.

    References: https://docs.pytorch.org/docs/stable/notes/cuda.html#environment-variables
    """

    code = "ADO43"
    name = "visible-devices-in-code"
    summary = "a program chooses its GPUs by CUDA_VISIBLE_DEVICES"
    anchors = (_NAME,)
    text_anchors = (_NAME,)
    examples = (
        Example("set", 'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\nimport torch\n'),
        Example("after torch", "import os\nimport torch\nos.environ['CUDA_VISIBLE_DEVICES'] = args.gpu\n"),
        Example("the CPU", "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = ''\n"),
        Example("setdefault", 'import os\nos.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")\n'),
        Example("a child's environment", 'env = {**os.environ, "CUDA_VISIBLE_DEVICES": str(rank)}\n'),
        Example("a keyword", 'import os\nos.environ.update(CUDA_VISIBLE_DEVICES="0")\n'),
        Example("read", 'import os\nn = len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))\n'),
        Example("read with a default", "import os\nn = os.environ.get('CUDA_VISIBLE_DEVICES', '0').split(',')\n"),
        Example("a command", "import os\nos.system('CUDA_VISIBLE_DEVICES=0 python train.py')\n"),
    )
    leaves = (
        Leave(
            "parser.add_argument('--gpu', help='id(s) for CUDA_VISIBLE_DEVICES')\nprint('CUDA_VISIBLE_DEVICES')\n",
            "texts",
        ),
        Leave("# os.environ['CUDA_VISIBLE_DEVICES'] = '0'\n", "a comment"),
        Leave(
            'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nos.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"\n',
            "harmless",
        ),
        Leave(
            "import os\nprint(os.environ.get('CUDA_VISIBLE_DEVICES'))\nos.environ.pop('CUDA_VISIBLE_DEVICES', None)\n",
            "shown, removed",
        ),
        Leave("import os\nif 'CUDA_VISIBLE_DEVICES' in os.environ:\n    pass\n", "only asked for"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        leaf = site.leaf
        if not site.in_string:
            if site.keyword is not None:
                yield self._set(site, site.keyword.node, site.keyword.value)
            return
        value = string_value(leaf)
        if value != _NAME:
            yield from self._in_command(site)
            return
        parent = leaf.parent
        if parent is None:
            return
        if parent.type == "pair" and same(field(parent, "key"), leaf):
            yield self._set(site, parent, field(parent, "value"))
        elif parent.type == "subscript":
            yield from self._subscript(site, parent)
        elif parent.type == "argument_list" and parent.parent is not None and parent.parent.type == "call":
            yield from self._call(site, Call(parent.parent))

    def _subscript(self, site: Site, subscript: Node) -> Iterator[Finding]:
        owner = subscript.parent
        if owner is not None and owner.type == "assignment" and same(field(owner, "left"), subscript):
            yield self._set(site, owner, field(owner, "right"))
        elif (
            owner is not None
            and owner.type != "delete_statement"
            and "environ" in text(subscript)
            and not _is_shown(subscript)
        ):
            yield self._read(site, subscript, "raises KeyError where it is not set, as on machines without CUDA")

    def _call(self, site: Site, call: Call) -> Iterator[Finding]:
        first = call.positional[0].value if call.positional else None
        if not same(first, site.leaf):
            return
        if call.method in ("setdefault", "__setitem__", "putenv", "setenv") and len(call.positional) > 1:
            yield self._set(site, call.node, call.positional[1].value)
        elif call.method in ("get", "getenv") or text(call.function) == "getenv":
            parent = call.node.parent
            used = parent is not None and (
                parent.type in ("attribute", "subscript") or text(parent).startswith(("len(", "int("))
            )
            if used and not _is_shown(call.node):
                yield self._read(site, call.node, "says nothing on machines without CUDA")

    def _set(self, site: Site, node: Node, value: Node | None) -> Finding:
        given = string_value(value) if value is not None else None
        if given is not None and given.strip() in ("", "-1"):
            message = (
                f'`{_NAME} = "{given}"` forces the CPU on machines with CUDA only; decide whether others should use it too: usual: also '
                '`device = torch.device("cpu")`'
            )
        elif site.module.at_import(node) and self._comes_after_torch(site, node):
            message = (
                f"`{_NAME}` is set after torch was imported, which works only while nothing has asked for a GPU; usual: move it above "
                "`import torch`; it chooses among NVIDIA GPUs and does nothing for other accelerators"
            )
        else:
            message = (
                f"`{_NAME}` chooses among NVIDIA GPUs and does nothing for other accelerators; usual: keep it, before anything asks for a "
                "device, and where another is to be chosen set its own variable too (`HIP_VISIBLE_DEVICES` for ROCm, `ZE_AFFINITY_MASK` "
                "for Intel, `ASCEND_RT_VISIBLE_DEVICES` for Ascend)"
            )
        return site.context.finding(self, node, message, Safety.MANUAL)

    def _read(self, site: Site, node: Node, why: str) -> Finding:
        return site.context.finding(
            self,
            node,
            f"`{_NAME}` {why}; decide where the number of devices comes from: usual: `torch.accelerator.device_count()`",
            Safety.MANUAL,
        )

    def _in_command(self, site: Site) -> Iterator[Finding]:
        holder = site.leaf
        for parent in ancestors(site.leaf):
            if parent.type not in (
                "argument_list",
                "list",
                "binary_operator",
                "concatenated_string",
                "attribute",
                "call",
                "keyword_argument",
            ):
                return
            if (
                parent.type == "call"
                and _COMMANDS.search(text(Call(parent).function))
                and same(Call(parent).argument_list, holder)
            ):
                yield site.context.finding(
                    self,
                    parent,
                    f"the command chooses GPUs by `{_NAME}`, which other accelerators do not read; usual: keep it, and scan the program "
                    "that it starts",
                    Safety.MANUAL,
                )
                return
            holder = parent

    def _comes_after_torch(self, site: Site, node: Node) -> bool:
        return _TORCH.search(site.module.data, 0, node.start_byte) is not None


def _is_shown(node: Node) -> bool:
    """Whether a value is only printed or logged."""
    for parent in ancestors(node):
        if parent.type == "call":
            name = text(Call(parent).function).rpartition(".")[2]
            if name in ("print", "info", "debug", "warning", "log", "error"):
                return True
        if parent.type.endswith("statement"):
            return False
    return False
