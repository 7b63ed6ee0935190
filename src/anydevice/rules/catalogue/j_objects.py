"""Group J, third part: whole objects in files, pickles of tensors, and loaders that take a device by number."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.catalogue.j_checkpoints import loader
from anydevice.rules.loaded import Use, uses_of
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.calls import Argument, Call
from anydevice.source.syntax import field, string_value, strip_parens, text, walk

_IS_MODULE = r"\.(?:parameters|named_parameters|train|eval|state_dict|zero_grad|load_state_dict)\("


class WholeObjectCheckpoint(PythonRule):
    """`torch.save(model, path)` pickles the module itself: its code, its devices, and every tensor it holds.

    Loading it takes the same source files, and `weights_only=False` since torch 2.6. Instead: save `model.state_dict()`, build
    the model, and load the state into it.

    References: https://docs.pytorch.org/docs/stable/notes/serialization.html
    """

    code = "ADJ03"
    name = "whole-object-checkpoint"
    summary = "a whole model is saved or loaded, not its state"
    anchors = ("save", "load")
    needs = (
        r"torch\.save\(|torch\.load\(|t\.save\(|th\.save\(|t\.load\(|th\.load\(|serialization|import load|import save",
    )
    examples = (
        Example("saving", "import torch\nfor p in net.parameters():\n    p.data.zero_()\ntorch.save(net, path)\n"),
        Example("saving in a dict", 'import torch\nnet.train()\ntorch.save({"model": net, "epoch": 1}, path)\n'),
        Example("loading", "import torch\nnet = torch.load(path, map_location=device)\nnet.eval()\n"),
    )
    leaves = (
        Leave("import torch\nnet.eval()\ntorch.save(net.state_dict(), path)\n", "its state"),
        Leave("import torch\ntorch.save(x, path)\n", "not known to be a module"),
        Leave('import torch\nckpt = torch.load(path, map_location="cpu")\nnet.load_state_dict(ckpt)\n', "a state"),
        Leave("import numpy as np\nnet.eval()\nnp.save(path, net)\n", "not torch"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        context = site.context
        if site.word == "load":
            call = loader(site)
            if call is not None and site.qualname == "torch.load" and _is_whole(context, call.node):
                message = (
                    "a whole module is loaded, with its code and devices (and since torch 2.6 only with `weights_only=False`): "
                    "build the model here, and load `model.state_dict()` into it"
                )
                yield context.finding(self, call.node, message, Safety.MANUAL)
            return
        if site.qualname not in ("torch.save", "torch.serialization.save") or site.call is None:
            return
        saved = site.call.argument(0, "obj")
        for node in _saved(saved.value) if saved is not None else ():
            if _is_module(context, node):
                message = f"`{text(node)}` is saved with its code and its devices: save `{text(node)}.state_dict()`"
                yield context.finding(self, site.call.node, message, Safety.MANUAL)
                return


def _is_whole(context: Context, node: Node) -> bool:
    """Whether what is loaded (or an entry of it) is used as a module."""
    return uses_of(context, node).is_module


def _saved(value: Node) -> Iterator[Node]:
    """The objects that are saved: the value, or the values of a dict."""
    value = strip_parens(value)
    if value.type in ("identifier", "attribute"):
        yield value
    elif value.type == "dictionary":
        for pair in value.named_children:
            entry = field(pair, "value") if pair.type == "pair" else None
            if entry is not None and entry.type in ("identifier", "attribute"):
                yield entry
    elif value.type == "call" and text(Call(value).function) == "dict":
        yield from (a.value for a in Call(value).arguments if a.value.type in ("identifier", "attribute"))


def _is_module(context: Context, node: Node) -> bool:
    name = text(node)
    if re.search(r"optim|sched|scaler|loader|logger", name, re.I):
        return False
    data = context.module.data
    if re.search(rb"(?<![\w.])" + re.escape(name.encode()) + _IS_MODULE.encode(), data):
        return True
    if node.type != "identifier":
        return False
    for binding in context.module.names.lookup(node):
        value = binding.value
        while value is not None and value.type == "call" and value.type == "call":
            function = Call(value).function
            made = context.module.qualname(function) or ""
            classes = (
                [b.value for b in context.module.names.lookup(function) if b.kind == "class"]
                if function.type == "identifier"
                else []
            )
            if made.startswith(("torch.nn.", "torchvision.models.")) or any(
                context.is_module_class(c) for c in classes
            ):
                return True
            value = Call(value).receiver  # Net().to(device)
    return False


class PickledTensors(PythonRule):
    """`pickle.load(f)` and `joblib.load(f)` put tensors back on CUDA, and there is no `map_location` to say otherwise.

    Instead: `torch.save` and `torch.load`. For files that exist: an Unpickler whose `find_class` gives, for
    `("torch.storage", "_load_from_bytes")`, `lambda b: torch.load(io.BytesIO(b), map_location="cpu", weights_only=False)`.
    """

    code = "ADJ04"
    name = "pickled-tensors"
    summary = "tensors are unpickled to the device that they were pickled from"
    anchors = ("load", "loads", "read_pickle")
    needs = ("torch", r"pickle|joblib|dill")
    _LOADERS = frozenset(
        f"{module}.{name}"
        for module in (
            "pickle",
            "cPickle",
            "six.moves.cPickle",
            "dill",
            "joblib",
            "cloudpickle",
            "sklearn.externals.joblib",
            "pickle5",
        )
        for name in ("load", "loads")
    ) | {"pandas.read_pickle"}
    examples = (
        Example("a model", "import pickle\nimport torch\nG, D = pickle.load(f)\nG.load_state_dict(D.state_dict())\n"),
        Example("a state", "import joblib\nimport torch\nnet.load_state_dict(joblib.load(path))\n"),
        Example("tensors", "import pickle\nimport torch\nx = pickle.load(f).cuda()\n"),
    )
    leaves = (
        Leave(
            "import pickle\nimport torch\nvocab = pickle.load(f)\nn = len(vocab)\n",
            "nothing says that it holds tensors",
        ),
        Leave("import pickle\nnet = pickle.load(f)\nnet.eval()\n", "torch is not there"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.qualname not in self._LOADERS or site.call is None or b"torch" not in site.module.data:
            return
        kinds = uses_of(site.context, site.call.node).kinds
        if kinds & {Use.COPIED, Use.MOVED, Use.MODULE}:
            message = (
                f"`{text(site.call.function)}` puts tensors back on the device they were pickled from: save with `torch.save`, or "
                'read with an Unpickler that loads storages with `map_location="cpu"`'
            )
            yield site.context.finding(self, site.call.node, message, Safety.MANUAL)


class NumberedLoadDevice(PythonRule):
    """`load_file(path, device=0)`, `device_map={"": 0}` and `pipeline(..., device=0)` mean CUDA by number.

    Instead: the chosen device: safetensors takes its name, Transformers takes it as it is.
    """

    code = "ADJ05"
    name = "numbered-load-device"
    summary = "a model is loaded to a device by number"
    anchors = ("load_file", "safe_open", "load_model", "pipeline", "device_map")
    needs = (
        r"safetensors|transformers|device_map",
        (
            r"device\s*=\s*[\d{]",
            r"device_map\s*=\s*[\d{]",
            r"load_file\(|safe_open\(|load_model\(",
            r"pipeline\([^)]*device",
        ),
    )
    _SAFETENSORS = {
        "safetensors.torch.load_file": 1,
        "safetensors.safe_open": 2,
        "safetensors.torch.safe_open": 2,
        "safetensors.torch.load_model": 3,
    }
    _PIPELINES = frozenset({"transformers.pipeline", "transformers.pipelines.pipeline"})
    _RANKS = re.compile(r"(?:^|[._])(?:local_rank|rank|gpu|gpu_id|device_id|LOCAL_RANK)\Z")
    examples = (
        Example(
            "safetensors",
            "import torch\nfrom safetensors.torch import load_file\nsd = load_file(path, device=0)\n",
            "import torch\nfrom safetensors.torch import load_file\nsd = load_file(path, device=device.type)\n",
        ),
        Example(
            "a rank",
            'import torch\nfrom safetensors import safe_open\nf = safe_open(path, "pt", local_rank)\n',
            'import torch\nfrom safetensors import safe_open\nf = safe_open(path, "pt", str(device_for(local_rank)))\n',
        ),
        Example(
            "a pipeline",
            "import torch\nfrom transformers import pipeline\np = pipeline('ner', device=0)\n",
            "import torch\nfrom transformers import pipeline\np = pipeline('ner', device=device)\n",
        ),
        Example(
            "a pipeline with a choice",
            "import torch\nfrom transformers import pipeline\np = pipeline('ner', device=0 if torch.cuda.is_available() else -1)\n",
            "import torch\nfrom transformers import pipeline\np = pipeline('ner', device=device)\n",
        ),
        Example(
            "a device map",
            'import torch\nm = AutoModel.from_pretrained(name, device_map={"": 0})\n',
            'import torch\nm = AutoModel.from_pretrained(name, device_map={"": device})\n',
        ),
        Example(
            "the current device",
            'import torch\nm = AutoModel.from_pretrained(name, device_map={"": torch.cuda.current_device()})\n',
            'import torch\nm = AutoModel.from_pretrained(name, device_map={"": device})\n',
        ),
        Example(
            "a device map with a rank",
            'import torch\nm = AutoModel.from_pretrained(name, device_map={"": local_rank})\n',
            'import torch\nm = AutoModel.from_pretrained(name, device_map={"": device_for(local_rank)})\n',
        ),
    )
    leaves = (
        Leave("from transformers import pipeline\np = pipeline('ner', device=device)\n", "follows the device"),
        Leave("from transformers import pipeline\np = pipeline('ner', device=-1)\n", "the CPU"),
        Leave('m = AutoModel.from_pretrained(name, device_map="auto")\n', "left to the library"),
        Leave("from safetensors.torch import load_file\nsd = load_file(path)\n", "to the CPU"),
        Leave("from mine import pipeline\np = pipeline(device=0)\n", "one's own"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        if site.word == "device_map":
            if site.keyword is not None and b"torch" in site.module.data:
                yield from self._mapped(site, site.keyword)
            return
        if site.call is None or site.is_import:
            return
        name = site.qualname or ""
        if name in self._PIPELINES:
            given = site.call.keyword("device")
        elif name in self._SAFETENSORS:
            given = site.call.argument(self._SAFETENSORS[name], "device")
        else:
            return
        if given is not None:
            yield from self._numbered(site, given, as_name=name in self._SAFETENSORS)

    def _mapped(self, site: Site, given: Argument) -> Iterator[Finding]:
        """`device_map=0`, `device_map={"": 0}`."""
        table = strip_parens(given.value)
        pairs = table.named_children if table.type == "dictionary" else ()
        found = [Argument(pair, value) for pair in pairs if (value := field(pair, "value")) is not None]
        for argument in found if table.type == "dictionary" else [given]:
            yield from self._numbered(site, argument, as_name=False)

    def _numbered(self, site: Site, given: Argument, *, as_name: bool) -> Iterator[Finding]:
        """The finding for a number that stands for a device. `as_name`: a name is wanted rather than a torch.device."""
        context, value = site.context, strip_parens(given.value)
        current = value.type == "call" and site.module.qualname(Call(value).function) == "torch.cuda.current_device"
        index = "0" if current else _index(value)
        if index is None and value.type in ("identifier", "attribute") and self._RANKS.search(text(value)):
            index = text(value)
        if index is None:
            return
        if current or (index == "0" and not context.facts.sets_device):
            device = context.placement.device_object(value)
            new, edits = device.type if as_name else device.expr, device.edits
        else:
            expression = context.placement.indexed(value, index)
            new, edits = f"str({expression.text})" if as_name else expression.text, expression.edits
        message = f"`{text(given.node)}` names a CUDA device by number; write `{new}`"
        yield context.finding(self, given.node, message, Safety.SAFE, [site.module.replace(given.value, new), *edits])


def _index(value: Node) -> str | None:
    """The number in `0`, or in `0 if torch.cuda.is_available() else -1`."""
    if value.type == "integer":
        return text(value)
    if value.type != "conditional_expression":
        return None
    parts = [child for child in value.named_children if child.type != "comment"]
    asks = (
        any(n.type == "identifier" and text(n) == "is_available" for n in walk(parts[1])) if len(parts) == 3 else False
    )
    other = text(parts[2]) if len(parts) == 3 else ""
    if not asks or parts[0].type != "integer" or (other != "-1" and string_value(parts[2]) != "cpu"):
        return None
    plain = re.fullmatch(r"\w+\.(?:cuda|accelerator)\.is_available\(\)", text(strip_parens(parts[1])))
    return text(parts[0]) if plain else None
