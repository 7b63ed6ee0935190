"""Group R: what a project brings in. Checked by `project/imports.py`, since it takes more than one file to see."""

from __future__ import annotations

from anydevice.rules.rule import Example, Leave, ProjectRule


class ImportedPackageTied(ProjectRule):
    """An installed package that the code imports calls CUDA by name, so the caller's own care does not help.

    Found by `scan --imports`, which reads the package where it is installed; it is neither imported nor edited. Instead:
    pass it a device where it takes one, ask its authors, or keep what calls it for machines with CUDA.
    """

    code = "ADR01"
    name = "imported-package-tied-to-cuda"
    summary = "an imported package calls CUDA by name"
    examples = (Example("a package that moves its own tensors", "import lucid_layers\n"),)
    leaves = (Leave("import numpy\n", "asks for no device"),)
