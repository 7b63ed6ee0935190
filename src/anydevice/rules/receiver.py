"""Whether a `.cuda()` belongs to torch: what is known of the object it is called on."""

from __future__ import annotations

import re

from tree_sitter import Node

from anydevice.rules.site import Context
from anydevice.source.syntax import ancestors, field, text

FOREIGN = frozenset(
    {
        "cupy",
        "cupyx",
        "numba",
        "pycuda",
        "cudf",
        "cuml",
        "rmm",
        "jax",
        "jaxlib",
        "tensorflow",
        "tf",
        "paddle",
        "mxnet",
        "cv2",
        "cntk",
        "chainer",
        "theano",
        "pyopencl",
        "warp",
        "taichi",
        "mlx",
    }
)
_TENSOR_METHODS = re.compile(
    r"\.(?:size|view|unsqueeze|squeeze|detach|backward|requires_grad_?|contiguous|permute|parameters|state_dict|train|eval"
    r"|load_state_dict|zero_grad|float|long|half|double|byte|type|expand|data)\b"
)


def owner_of_cuda(context: Context, receiver: Node) -> str:
    """`torch`, `foreign` (another library's or a class of one's own), or `unknown`.

    Unknown only arises in projects that define classes with a `cuda` method of their own: there a plain name may be
    an object of such a class.
    """
    module = context.module
    root = receiver
    while root.type == "attribute":
        inner = field(root, "object")
        if inner is None:
            break
        root = inner
    name = module.qualname(root)
    if name is not None and name.split(".")[0] in FOREIGN:
        return "foreign"
    if not context.facts.cuda_classes:
        return "torch"
    return _among_own_classes(context, receiver)


def _among_own_classes(context: Context, receiver: Node) -> str:
    classes = context.facts.cuda_classes
    if receiver.type == "call":
        function = field(receiver, "function")
        return "foreign" if function is not None and text(function).rsplit(".", 1)[-1] in classes else "torch"
    if receiver.type == "identifier" and text(receiver) == "self":
        owner = context.module.class_(receiver)
        own = field(owner, "name") if owner is not None else None
        return "foreign" if own is not None and text(own) in classes else "torch"
    if receiver.type != "identifier":
        return "torch" if receiver.type == "subscript" or _is_plain_attribute(receiver) else "unknown"
    name = text(receiver)
    for binding in context.module.names.lookup(receiver):
        if binding.value is not None and binding.value.type == "call":
            function = field(binding.value, "function")
            called = text(function).rsplit(".", 1)[-1] if function is not None else ""
            if called in classes:
                return "foreign"
            if (context.module.qualname(function) or "").startswith("torch."):
                return "torch"
    scope = context.module.function(receiver) or context.module.root
    if re.search(rf"\b{re.escape(name)}" + _TENSOR_METHODS.pattern, text(scope)):
        return "torch"
    if any(name.lower() in own.lower() or own.lower() in name.lower() for own in classes):
        return "foreign"
    return "unknown" if not any(a.type == "class_definition" for a in ancestors(receiver)) else "torch"


def _is_plain_attribute(receiver: Node) -> bool:
    inner = field(receiver, "object")
    return receiver.type == "attribute" and inner is not None and text(inner) == "self"
