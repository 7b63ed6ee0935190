"""What is read of `torch.cuda.get_device_properties()`, and what can stand in for it where there is no CUDA."""

from __future__ import annotations

from tree_sitter import Node

from anydevice.rules.site import Context
from anydevice.source.syntax import field, same, text

# What stands in for a property of a CUDA device where there is none.
PROPERTIES = {
    "total_memory": "0",
    "major": "0",
    "minor": "0",
    "multi_processor_count": "1",
    "warp_size": "1",
    "max_threads_per_multi_processor": "1",
    "regs_per_multiprocessor": "0",
    "shared_memory_per_block": "0",
    "shared_memory_per_block_optin": "0",
    "shared_memory_per_multiprocessor": "0",
    "L2_cache_size": "0",
    "is_integrated": "False",
    "is_multi_gpu_board": "False",
}


def has_stand_in(context: Context, call: Node) -> bool:
    """Whether all that is done with the answer of `call` can be done with something else where there is no CUDA."""
    reader = call.parent
    if reader is not None and reader.type == "attribute":
        return _is_known(text(field(reader, "attribute") or reader))
    return bool(properties_read(context, call))


def properties_read(context: Context, node: Node) -> list[str] | None:
    """The properties that are read of the only name that `node` is bound to; None when it is used otherwise too."""
    owner = node.parent
    name = field(owner, "left") if owner is not None and owner.type == "assignment" else None
    if owner is None or name is None or name.type != "identifier" or not same(field(owner, "right"), node):
        return None
    names = context.module.names
    own = [binding for binding in names.bindings(text(name)) if same(binding.scope, context.module.scope(name))]
    wanted: dict[str, None] = {}
    for use in names.references(text(name)):
        if not any(same(binding.node, name) for binding in names.lookup(use)):
            continue
        reader = use.parent
        attribute = field(reader, "attribute") if reader is not None and reader.type == "attribute" else None
        if len(own) != 1 or attribute is None or not _is_known(text(attribute)):
            return None
        wanted[text(attribute)] = None
    return list(wanted)


def _is_known(property_: str) -> bool:
    return property_ in PROPERTIES or property_ == "name"
