"""What the rules about the names of torch.amp have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.amp import Meaning, call_of, meaning, offered, plan
from anydevice.rules.amp_names import import_plan, is_binding, is_harmless, other_names
from anydevice.rules.rule import PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.syntax import text


class AmpName(PythonRule):
    """A rule about some of the four names: `kinds`, the `trouble` with one, and the `advice` where no edit will do."""

    kinds: ClassVar[frozenset[str]]
    trouble: ClassVar[str]
    advice: ClassVar[str]

    def check(self, site: Site) -> Iterator[Finding]:
        context = site.context
        if site.is_import or site.keyword is not None or is_binding(context, site.leaf):
            return
        for reference in (site.reference, *other_names(context, site.reference, self.anchors)):
            meant = meaning(context, reference)
            if meant is None or meant.kind not in self.kinds or is_harmless(context, reference):
                continue
            if meant.cuda and not offered(context, meant.kind):
                yield from self.old(context, reference)
            else:
                yield from self.mended(context, reference, meant)

    def mended(self, context: Context, reference: Node, meant: Meaning) -> Iterator[Finding]:
        """The finding at one use, with all other uses of an import that changes with it."""
        call = call_of(reference)
        node = call.node if call is not None else reference
        together = import_plan(context, meant) if meant.cuda else None
        own = plan(context, reference, meant, renamed=together is not None)
        if own is not None and own.edits:
            edits = together if together is not None else own.edits
            message = f"{self.trouble.format(text(reference))}; write `{own.written}`"
            yield context.finding(self, node, message, own.safety, list(edits))
        elif own is not None and together is not None:  # a type: the import is all that changes
            yield context.finding(self, node, "the name moves with its import to torch.amp", own.safety, list(together))
        elif own is None and (meant.cuda or call is None):
            yield from self.decided(context, reference, meant)

    def decided(self, context: Context, reference: Node, meant: Meaning) -> Iterator[Finding]:
        """The finding where the use cannot be mended alone."""
        if meant.cuda:
            message = f"{self.trouble.format(text(reference))}: {self.advice}"
            yield context.finding(self, reference, message, Safety.MANUAL)

    @abstractmethod
    def old(self, context: Context, reference: Node) -> Iterator[Finding]:
        """The finding where the oldest supported torch has no counterpart in torch.amp."""
