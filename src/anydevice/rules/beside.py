"""A tensor from which a factory can take its device: one that has a name there and is on the device."""

from __future__ import annotations

from tree_sitter import Node

from anydevice.rules.held import of_binding
from anydevice.rules.home import Home
from anydevice.rules.residence import Residence
from anydevice.source.syntax import ancestors, same, statement, text


def anchor(residence: Residence, factory: Node, partner: Node) -> str | None:
    """A tensor's name from which `factory` can take its device: the partner, or an input of the function."""
    module = residence.module
    partner_text = text(partner)
    kept = partner.type == "attribute" and partner_text.startswith("self.") and partner_text.count(".") == 1
    if kept and residence.same_function(factory, partner) and residence.of(partner) is Home.DEVICE:
        return partner_text
    if partner.type == "identifier" and residence.same_function(factory, partner):
        around = {a.id for a in (factory, *ancestors(factory))}
        for binding in residence.reaching(partner):
            made = statement(binding.node)
            holder = made if made.type == "for_statement" else made.parent
            if binding.kind == "parameter" or (
                binding.node.start_byte < factory.start_byte
                and holder is not None
                and holder.id in around
                and made.id not in around
            ):
                return partner_text
    function = module.function(factory)
    if function is None:
        return None
    for name in residence.parameters(function):
        own = next((b for b in module.names.bindings(name) if b.kind == "parameter" and same(b.scope, function)), None)
        if own is not None and own.value is None and of_binding(residence, own) is Home.DEVICE:
            return name
    return None
