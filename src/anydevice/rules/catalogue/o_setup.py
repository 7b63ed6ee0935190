"""Group O, second part: the requirements of a setup.py."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Finding, Safety
from anydevice.rules.cuda_packages import MAC, NOT_MAC, ON_PYPI, WHEELS, advice
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Site
from anydevice.source.syntax import ancestors, field, string_value, text


class CudaRequirementInSetup(PythonRule):
    """`install_requires` of a setup.py names CUDA builds or packages for CUDA machines: nobody else can install the project.

    Instead: the same as in requirements.txt, markers for what has wheels on some platforms only, an extra for the rest.

    References: https://setuptools.pypa.io/en/latest/userguide/dependency_management.html
    """

    code = "ADO02"
    name = "cuda-requirement-in-setup"
    summary = "setup.py requires what exists for CUDA machines only"
    text_anchors = (
        *(f"cu{n}" for n in (92, 100, 101, 102, 110, 111, 113, 115, 116, 117, 118, 121, 124, 126, 128, 129, 130)),
        "cu12", "cu11", "triton", "flash-attn", "flash_attn", "xformers", "bitsandbytes", "apex", "cupy", "deepspeed", "mamba-ssm",
        "causal-conv1d", "faiss-gpu", "onnxruntime-gpu",
    )  # fmt: skip
    examples = (
        Example(
            "a pinned build",
            'from setuptools import setup\nsetup(name="a", install_requires=["torch==1.7.1+cu110", "numpy"])\n',
            'from setuptools import setup\nsetup(name="a", install_requires=["torch==1.7.1+cu110; sys_platform != \'darwin\'", '
            '"torch==1.7.1; sys_platform == \'darwin\'", "numpy"])\n',
            "setup.py",
        ),
        Example(
            "a name",
            "from setuptools import setup\nrequirements = ['triton']\nsetup(name='a', install_requires=requirements)\n",
            "from setuptools import setup\nrequirements = ['triton; sys_platform == \"linux\"']\n"
            "setup(name='a', install_requires=requirements)\n",
            "setup.py",
        ),
        Example(
            "compiled",
            'from setuptools import setup\nsetup(name="a", install_requires=["flash-attn>=2"])\n',
            None,
            "setup.py",
        ),
    )
    leaves = (
        Leave('from setuptools import setup\nsetup(extras_require={"cuda": ["flash-attn"]})\n', "an extra", "setup.py"),
        Leave(
            "from setuptools import setup\nsetup(install_requires=[\"triton; sys_platform == 'linux'\"])\n",
            "by platform",
            "setup.py",
        ),
        Leave('backends = ["triton", "xformers"]\nif name == "triton":\n    pass\n', "no requirement"),
    )
    _REQUIREMENT = re.compile(r"\s*(?P<name>[A-Za-z][\w.\-]*)(?:\[[^\]]*\])?\s*(?P<spec>[^;@]*)(?P<rest>.*)", re.S)

    def check(self, site: Site) -> Iterator[Finding]:
        value = string_value(site.leaf)
        holder = site.leaf.parent
        if value is None or holder is None or holder.type not in ("list", "tuple") or not _is_requires(holder):
            return
        match = self._REQUIREMENT.fullmatch(value)
        if match is None or "platform" in match.group("rest") or match.group("rest").startswith("@"):
            return
        name = re.sub(r"[-_.]+", "-", match.group("name").lower())
        quote = text(site.leaf)[-1]
        pinned = re.fullmatch(r"==\s*[\w.]+\+cu\d+", match.group("spec").strip())
        free = not match.group("rest") and text(site.leaf)[0] == quote
        if pinned is not None and name in ON_PYPI and free:
            plain = value.rpartition("+")[0]
            first, second = (
                _marked(value, NOT_MAC, quote),
                _marked(plain, MAC, quote),
            )
            yield site.context.finding(
                self,
                site.leaf,
                f"`{value}` does not exist for macOS; require it elsewhere and `{plain}` there",
                Safety.SAFE,
                [site.module.replace(site.leaf, f"{first}{_between(site)}{second}")],
            )
            return
        for pattern, where, marker in WHEELS:
            if pattern.match(name) and free:
                yield site.context.finding(
                    self,
                    site.leaf,
                    f"`{value}` has wheels for {where} only, and pip stops at it elsewhere; give it a marker",
                    Safety.SAFE,
                    [site.module.replace(site.leaf, _marked(value, marker, quote))],
                )
                return
        answer = advice(name) or ("take the plain version elsewhere" if re.search(r"\+\w*cu\d", value) else None)
        if answer is not None:
            yield site.context.finding(
                self,
                site.leaf,
                f"`{value}` cannot be installed, or does nothing, without CUDA; decide whether all need it: usual: move it to "
                f"`extras_require`, and {answer}",
                Safety.MANUAL,
            )


def _between(site: Site) -> str:
    """What separates an element from the next, as the list has it: a line of its own, or a comma."""
    return f",\n{site.module.indent(site.leaf)}" if site.module.starts_line(site.leaf) else ", "


def _marked(requirement: str, marker: str, quote: str) -> str:
    marker = marker.replace('"', "'") if quote == '"' else marker
    return f"{quote}{requirement}; {marker}{quote}"


def _is_requires(holder: Node) -> bool:
    """Whether a list is what a project requires of everyone."""
    for parent in ancestors(holder):
        if parent.type == "keyword_argument":
            name = field(parent, "name")
            return name is not None and text(name) in ("install_requires", "requires", "setup_requires")
        if parent.type == "assignment":
            left = field(parent, "left")
            return (
                left is not None
                and bool(re.search(r"require|dependenc", text(left), re.I))
                and "extra" not in text(left).lower()
            )
        if parent.type in ("dictionary", "call", "function_definition", "module"):
            return False
    return False
