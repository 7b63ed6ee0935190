"""How to say, in the words of each format, that torch shall come from the index of one build."""

from __future__ import annotations

from anydevice.doctor.lockcheck.listing import Listing
from anydevice.doctor.plan.variant import index_url


def from_index(listing: Listing, variant: str, names: str = "torch torchvision torchaudio") -> str:
    """The mend for taking packages from the index of a variant."""
    url, name = index_url(variant), f"pytorch-{variant.replace('.', '-')}"
    if listing.kind == "uv-lock" or (listing.kind == "pyproject" and listing.notes.get("tool") != "poetry"):
        sources = "; ".join(f'{package} = {{ index = "{name}" }}' for package in names.split())
        return (
            f'in pyproject.toml: [tool.uv.sources] {sources}, and [[tool.uv.index]] name = "{name}", url = "{url}", '
            f"explicit = true; then run 'uv lock'"
        )
    if listing.kind in ("poetry-lock", "pyproject"):
        return f"run 'poetry source add --priority=explicit {name} {url}' and 'poetry add --source {name} {names}'"
    if listing.kind == "conda":
        return f"put '--index-url {url}' first into the pip section, and {names.replace(' ', ', ')} below it"
    return f"keep {names.replace(' ', ', ')} in a file of their own that starts with '--index-url {url}'"


def again(listing: Listing) -> str:
    """The command that makes a lock anew."""
    return {"uv-lock": "; then run 'uv lock'", "poetry-lock": "; then run 'poetry lock'"}.get(listing.kind, "")
