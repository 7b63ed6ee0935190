"""Group J, second part: places to load to, as a function or a table that names CUDA."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.catalogue.j_checkpoints import ANCHORS, LOADERS, loader
from anydevice.rules.literal import device_literal
from anydevice.rules.loaded import uses_of
from anydevice.rules.placement import Expression
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Call
from anydevice.source.syntax import ancestors, field, same, strip_parens, text, walk


class HardcodedMapLocation(PythonRule):
    """`map_location=lambda storage, loc: storage.cuda(0)` and `{"cuda:0": "cuda:1"}` load to CUDA by name.

    Instead: the device itself. A table leaves alone what it does not list, so that a file saved elsewhere still raises.
    """

    code = "ADJ02"
    name = "hardcoded-map-location"
    summary = "`map_location` is a function or a table that names CUDA"
    anchors = (*ANCHORS, "map_location")
    needs = ("cuda",)
    examples = (
        Example(
            "a function",
            "import torch\nx = torch.load(path, map_location=lambda storage, loc: storage.cuda())\n",
            "import torch\nx = torch.load(path, map_location=device)\n",
        ),
        Example(
            "a function with an index, by position",
            "import torch\nx = torch.load(path, lambda s, l: s.cuda(args.gpu))\n",
            "import torch\nx = torch.load(path, device_for(args.gpu))\n",
        ),
        Example(
            "a function with a condition",
            "import torch\nx = torch.load(path, map_location=lambda s, l: s.cuda() if gpu else s)\n",
            'import torch\nx = torch.load(path, map_location=(device if gpu else "cpu"))\n',
        ),
        Example(
            "a table",
            'import torch\nnet.load_state_dict(torch.load(path, map_location={"cuda:0": "cuda:%d" % rank}))\n',
            "import torch\nnet.load_state_dict(torch.load(path, map_location=device_for(rank)))\n",
        ),
        Example(
            "a table with a name",
            'import torch\nplaces = {"cuda:%d" % 0: "cuda:%d" % rank}\nnet.load_state_dict(torch.load(path, map_location=places))\n',
            "import torch\nplaces = device_for(rank)\nnet.load_state_dict(torch.load(path, map_location=places))\n",
        ),
        Example(
            "a function with a name",
            "import torch\nif args.cuda:\n    places = lambda storage, loc: storage.cuda()\nelse:\n    places = 'cpu'\n"
            "x = torch.load(path, map_location=places)\n",
            "import torch\nif args.cuda:\n    places = device\nelse:\n    places = 'cpu'\n"
            "x = torch.load(path, map_location=places)\n",
        ),
        Example(
            "a table for what stays where it is loaded",
            'import torch\nx = torch.load(path, map_location={"cuda:1": "cuda:0"})\n',
            'import torch\nx = torch.load(path, map_location={"cuda:1": device.type})\n',
        ),
        Example(
            "a table of several",
            'import torch\nx = torch.load(path, map_location={"cuda:0": "cuda:1", "cuda:1": "cuda:0"})\n',
        ),
    )
    leaves = (
        Leave("import torch\nx = torch.load(path, map_location=lambda s, l: s)\n", "the CPU"),
        Leave('import torch\nx = torch.load(path, map_location={"cuda:0": "cpu"})\n', "the CPU"),
        Leave("import torch\nx = torch.load(path, map_location=where)\n", "follows a variable"),
        Leave('import torch\nx = torch.load(path, map_location="cuda")\n', "a literal, see hardcoded-device-literal"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.word == "map_location":
            value = site.keyword.value if site.keyword is not None else None
            call = next((a for a in ancestors(site.leaf) if a.type == "call"), None)
        else:
            found = loader(site)
            given = found.argument(LOADERS.get(site.qualname or "", 2), "map_location") if found is not None else None
            value, call = (given.value, found.node) if given is not None and found is not None else (None, None)
        if value is None or call is None:
            return
        value = strip_parens(value)
        named = value.type == "identifier"
        bindings = site.module.names.lookup(value) if named else ()
        for candidate in [b.value for b in bindings if b.kind == "assignment"] if named else [value]:
            if candidate is not None:
                yield from self._mended(site, strip_parens(candidate), call, value if named else None)

    def _mended(self, site: Site, value: Node, call: Node, name: Node | None) -> Iterator[Finding]:
        context = site.context
        if value.type == "lambda":
            if not _names_cuda(value):
                return
            replaced, target = value, _of_function(context, value)
        elif value.type == "dictionary":
            if not _names_several(context, value):
                return
            replaced, target = _of_table(context, value, whole=uses_of(context, call).placed)
        else:
            return
        only = name is None or _only_locations(context, name)
        if target is None or not only or context.is_scripted(value):
            message = f"`{text(value)[:60]}` loads to CUDA by name; give the device itself as `map_location`"
            yield context.finding(self, value, message, Safety.MANUAL)
            return
        message = f"`{text(replaced)[:60]}` loads to CUDA by name; write `{target.text}`"
        edits: list[Edit] = [site.module.replace(replaced, target.text), *target.edits]
        yield context.finding(self, value, message, Safety.SAFE, edits)


def _names_cuda(function: Node) -> bool:
    return any(n.type == "identifier" and text(n) == "cuda" for n in walk(function))


def _only_locations(context: Context, name: Node) -> bool:
    """Whether a variable is only ever given as `map_location`."""
    for use in context.module.names.references(text(name)):
        parent = use.parent
        if parent is None:
            return False
        if parent.type == "keyword_argument" and text(field(parent, "name") or parent) == "map_location":
            continue
        call = parent.parent if parent.type == "argument_list" else None
        if call is None or context.module.qualname(field(call, "function")) not in LOADERS:
            return False
    return True


def _of_function(context: Context, function: Node) -> Expression | None:
    """The device that `lambda storage, loc: storage.cuda(i)` puts everything on."""
    body, parameters = field(function, "body"), field(function, "parameters")
    first = parameters.named_child(0) if parameters is not None else None
    if body is None or first is None or first.type != "identifier":
        return None
    body = strip_parens(body)
    if body.type != "conditional_expression":
        return _put(context, body, text(first))
    parts = [child for child in body.named_children if child.type != "comment"]
    own = {text(p) for p in parameters.named_children} if parameters is not None else set()
    if len(parts) != 3 or any(n.type == "identifier" and text(n) in own for n in walk(parts[1])):
        return None
    branches = [_put(context, strip_parens(part), text(first)) for part in (parts[0], parts[2])]
    if branches[0] is None or branches[1] is None:
        return None
    text_ = f"({branches[0].text} if {text(parts[1])} else {branches[1].text})"
    return Expression(text_, (*branches[0].edits, *branches[1].edits))


def _put(context: Context, body: Node, storage: str) -> Expression | None:
    if text(body) == storage or text(body) == f"{storage}.cpu()":
        return Expression('"cpu"')
    call = Call(body) if body.type == "call" else None
    if call is None or call.receiver is None or text(call.receiver) != storage or call.method != "cuda":
        return None
    if call.has_star or len(call.arguments) > 1:
        return None
    argument = call.argument(0, "device")
    value = text(argument.value) if argument is not None else None
    literal = (
        device_literal(context.module, argument.value)
        if argument is not None and argument.value.type == "string"
        else None
    )
    if literal is not None:
        value = literal.index
    if value is None or value == "None" or (value == "0" and not context.facts.sets_device):
        device = context.placement.device(body)
        return Expression(device.expr, device.edits)
    return context.placement.indexed(body, value)


def _of_table(context: Context, table: Node, *, whole: bool) -> tuple[Node, Expression | None]:
    """What to replace in `{"cuda:0": "cuda:1"}`, and by what: `whole`, the table by its device; else that device's name."""
    pairs = [child for child in table.named_children if child.type == "pair"]
    key, value = (field(pairs[0], "key"), field(pairs[0], "value")) if len(pairs) == 1 else (None, None)
    index = _spelled(context, value) if value is not None else None
    if key is None or value is None or index is None or _spelled(context, key) is None or table.named_child_count != 1:
        return table, None
    if not index or (index == "0" and not context.facts.sets_device):
        device = context.placement.device(table)
        return (table if whole else value), Expression(device.expr if whole else device.type, device.edits)
    target = context.placement.indexed(table, index)
    return (table, target) if whole else (value, Expression(f"str({target.text})", target.edits))


def _spelled(context: Context, node: Node) -> str | None:
    """The index that a spelled-out CUDA device names, `""` for none; None for anything else."""
    for string in walk(node):
        if string.type == "string":
            literal = device_literal(context.module, string)
            outer = literal.device_call or literal.node if literal is not None else None
            return (literal.index or "") if literal is not None and same(outer, strip_parens(node)) else None
    return None


def _names_several(context: Context, table: Node) -> bool:
    """Whether a table sends anything to CUDA."""
    values = [field(child, "value") for child in table.named_children if child.type == "pair"]
    return any(value is not None and _spelled(context, value) is not None for value in values)
