"""Group O, first part: requirements that exist for CUDA machines only. Conda, locks: o_environments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anydevice.finding import Finding, Safety
from anydevice.rules.cuda_packages import MAC, NOT_MAC, ON_PYPI, WHEELS, advice
from anydevice.rules.lines import hits, style_of
from anydevice.rules.requirements import MANIFESTS, Requirement, is_variant, requirements
from anydevice.rules.rule import Example, Leave, TextRule
from anydevice.rules.textfile import TextFile

_PIN = re.compile(r"(?P<release>===?\s*v?\d[\w.]*)\+(?P<build>cu\d\d+)\Z")


class CudaBuildPin(TextRule):
    """`torch==2.1.0+cu118` names one build, which exists for Linux and Windows on x86 only: nobody can install it on a Mac.

    Instead: where the index of that build stands in the same file, the plain version, which pip still takes from there;
    else the pinned build for Linux and Windows and the plain one for macOS, by markers. Both install the same build as
    before on a machine with CUDA. A hash, a marker or a tool's own table is left for a person to change.

    References: https://peps.python.org/pep-0440/#local-version-identifiers, https://peps.python.org/pep-0508/
    """

    code = "ADO01"
    name = "cuda-build-pin"
    summary = "a requirement names the CUDA build of a package"
    files = MANIFESTS
    words = ("+cu", "cu1", "cu9", "%2Bcu")
    examples = (
        Example(
            "no index",
            "numpy\ntorch==1.8.0+cu111\n",
            'numpy\ntorch==1.8.0+cu111; sys_platform != "darwin"\ntorch==1.8.0; sys_platform == "darwin"\n',
            "requirements.txt",
        ),
        Example(
            "the index of that build",
            "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch==2.1.0+cu118\n",
            "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch==2.1.0\n",
            "requirements.txt",
        ),
        Example(
            "a page of all builds",
            "-f https://download.pytorch.org/whl/torch_stable.html\ntorchvision==0.9.0+cu111 # pinned\n",
            "-f https://download.pytorch.org/whl/torch_stable.html\n"
            'torchvision==0.9.0+cu111; sys_platform != "darwin"\ntorchvision==0.9.0; sys_platform == "darwin" # pinned\n',
            "requirements-dev.txt",
        ),
        Example(
            "pyproject",
            '[project]\ndependencies = [\n    "torch==2.1.0+cu118",\n    "numpy",\n]\n',
            "[project]\ndependencies = [\n    \"torch==2.1.0+cu118; sys_platform != 'darwin'\",\n"
            '    "torch==2.1.0; sys_platform == \'darwin\'",\n    "numpy",\n]\n',
            "pyproject.toml",
        ),
        Example(
            "setup.cfg",
            "[options]\ninstall_requires =\n    torch==2.1.0+cu118\n",
            '[options]\ninstall_requires =\n    torch==2.1.0+cu118; sys_platform != "darwin"\n'
            '    torch==2.1.0; sys_platform == "darwin"\n',
            "setup.cfg",
        ),
        Example(
            "pip in a conda environment",
            "name: a\ndependencies:\n  - python=3.8\n  - pip:\n    - torch==1.8.0+cu111\n",
            'name: a\ndependencies:\n  - python=3.8\n  - pip:\n    - torch==1.8.0+cu111; sys_platform != "darwin"\n'
            '    - torch==1.8.0; sys_platform == "darwin"\n',
            "environment.yml",
        ),
        Example("poetry", '[tool.poetry.dependencies]\ntorch = "2.1.0+cu118"\n', None, "pyproject.toml"),
        Example("Pipfile", '[packages]\ntorch = "==2.1.0+cu118"\n', None, "Pipfile"),
        Example("a hash", "torch==2.0.1+cu118 \\\n    --hash=sha256:00\n", None, "requirements.txt"),
        Example("another package", "torch-scatter==2.1.1+pt20cu118\n", None, "requirements.txt"),
        Example(
            "a wheel",
            "torch @ https://download.pytorch.org/whl/cu118/torch-2.1.0%2Bcu118-cp310-cp310-linux_x86_64.whl\n# +cu118\n",
            None,
            "requirements.txt",
        ),
    )
    leaves = (
        Leave("torch==2.1.0\n# torch==2.1.0+cu118\n", "a comment", "requirements.txt"),
        Leave('torch==2.1.0+cu118; sys_platform == "linux"\n', "for one platform already", "requirements.txt"),
        Leave("torch==2.1.0+cu118\n", "a file for CUDA machines", "requirements-gpu.txt"),
        Leave("torch==2.1.0+cpu\n", "the CPU build", "requirements.txt"),
        Leave("[options.extras_require]\ngpu =\n    torch==2.1.0+cu118\n", "an extra", "setup.cfg"),
        Leave("jax==0.4.1\njaxlib==0.4.1+cuda11.cudnn82\n", "not torch", "requirements.txt"),
    )

    def check(self, file: TextFile) -> Iterator[Finding]:
        if is_variant(file):
            return
        for requirement in requirements(file):
            if requirement.has_platform or advice(requirement.name) is not None:
                continue
            if re.search(r"(?:\+|%2B)cu\d\d", requirement.spec + requirement.rest.partition("#")[0], re.I) or re.search(
                r"\+\w*cu\d\d", requirement.spec
            ):
                yield self._pinned(file, requirement)

    def _pinned(self, file: TextFile, requirement: Requirement) -> Finding:
        pin = _PIN.search(requirement.spec)
        written = f"`{requirement.written}`"
        if pin is None or requirement.name not in ON_PYPI or not requirement.is_plain:
            version = re.sub(r"(?:\+|%2B)\w*cu\d\w*", "", requirement.written)
            usual = (
                f"`{version}`, and the index of the build chosen by who installs"
                if requirement.form == "entry"
                else f"this line with the marker `{NOT_MAC}`, and one without the build for the rest"
            )
            return file.finding(
                self,
                requirement.start,
                requirement.end,
                f"{written} is a build for CUDA on Linux and Windows; decide how other machines install `{requirement.name}`: "
                f"usual: {usual}",
                Safety.MANUAL,
            )
        plain = requirement.written.rpartition("+")[0]
        if re.search(rb"/whl/(?:nightly/|test/)?" + pin.group("build").encode() + rb"(?![\w.])", _options(file.data)):
            return file.finding(
                self,
                requirement.start,
                requirement.end,
                f"{written} exists for CUDA only, and the index in this file selects that build anyway; write `{plain}`",
                Safety.SAFE,
                plain,
            )
        return file.finding(
            self,
            requirement.start,
            requirement.end,
            f"{written} does not exist for macOS; require it elsewhere and `{plain}` there",
            Safety.SAFE,
            requirement.twice(NOT_MAC, plain, MAC),
        )


def _options(data: bytes) -> bytes:
    """The lines that give pip an index or a page of links."""
    return b"\n".join(
        re.findall(rb"(?m)^[ \t]*(?:-[ \t]+)?[\"']?(?:-f|-i|--find-links|--(?:extra-)?index-url)[ =]\S+", data)
    )


class CudaPackageIndex(TextRule):
    """An index of builds for one CUDA version is set for everyone who installs the project.

    Instead: name no index in the requirements; say in the README which one suits which machine. With uv, give the index a
    marker: `torch = { index = "pytorch-cu118", marker = "sys_platform == 'linux'" }`.

    References: https://pytorch.org/get-started/locally/, https://docs.astral.sh/uv/guides/integration/pytorch/
    """

    code = "ADO03"
    name = "cuda-package-index"
    summary = "packages are taken from an index of CUDA builds"
    files = (*MANIFESTS, "pip.conf", "pip.ini", "uv.toml")
    words = ("/cu", "/torch-", ".nvidia.com")
    examples = (
        Example(
            "an extra index",
            "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch\n",
            None,
            "requirements.txt",
        ),
        Example("the only index", "-i https://download.pytorch.org/whl/cu121\ntorch\n", None, "requirements.txt"),
        Example(
            "a page of links",
            "-f https://download.pytorch.org/whl/cu113/torch_stable.html\ntorch\n",
            None,
            "requirements.txt",
        ),
        Example(
            "poetry",
            '[[tool.poetry.source]]\nname = "t"\nurl = "https://download.pytorch.org/whl/cu118"\n',
            None,
            "pyproject.toml",
        ),
        Example(
            "uv",
            '[[tool.uv.index]]\nname = "t"\nurl = "https://download.pytorch.org/whl/cu128"\n',
            None,
            "pyproject.toml",
        ),
    )
    leaves = (
        Leave(
            "-f https://download.pytorch.org/whl/torch_stable.html\ntorch\n", "a page of all builds", "requirements.txt"
        ),
        Leave("--extra-index-url https://download.pytorch.org/whl/cpu\ntorch\n", "the CPU builds", "requirements.txt"),
        Leave("# https://download.pytorch.org/whl/cu118\ntorch\n", "a comment", "requirements.txt"),
        Leave(
            '[tool.uv.sources]\ntorch = [{ index = "t", marker = "sys_platform == \'linux\'" }]\n\n'
            '[[tool.uv.index]]\nname = "t"\nurl = "https://download.pytorch.org/whl/cu128"\nexplicit = true\n',
            "by platform already",
            "pyproject.toml",
        ),
    )
    _INDEX = re.compile(
        rb"https://(?:download(?:-r2)?\.pytorch\.org/whl/(?:nightly/|test/)?cu\d+|data\.pyg\.org/whl/torch-[\w.]+\+cu\d+"
        rb"|data\.dgl\.ai/wheels/(?:torch-[\w.]+/)?cu\d+|download\.openmmlab\.com/mmcv/dist/cu\d+|pypi\.(?:ngc\.)?nvidia\.com)[^\s\"']*"
    )
    _BY_PLATFORM = re.compile(rb"index[ \t]*=[^\n]*\bmarker\b|\bmarker\b[^\n]*index[ \t]*=")

    def check(self, file: TextFile) -> Iterator[Finding]:
        if is_variant(file) or self._BY_PLATFORM.search(file.data):
            return
        name = file.document.path.name
        found = [m for m in hits(file.data, self._INDEX, style_of(name)) if b".whl" not in m.group()]
        if not found:
            return
        address = found[0].group().decode()
        more = f" (and {len(found) - 1} more here)" if len(found) > 1 else ""
        answer = (
            'give the source a marker, as in `torch = { index = "...", marker = "sys_platform == \'linux\'" }` (uv) or '
            '`platform = "linux"` (poetry)'
            if name.endswith(".toml")
            else "drop the line, and say in the README which index suits which machine (`…/whl/cpu`, `…/whl/xpu`, `…/whl/rocm…`)"
        )
        yield file.finding(
            self,
            found[0].start(),
            found[0].end(),
            f"`{address}` has builds for one CUDA version{more}; decide who needs them: usual: {answer}",
            Safety.MANUAL,
        )


class CudaOnlyRequirement(TextRule):
    """A required package has wheels for CUDA machines only, or needs a CUDA compiler to install: elsewhere `pip` stops there.

    Instead: a marker, where wheels exist for Linux (and Windows) alone, so that other machines pass it over; else an extra,
    with code that does without the package where its import fails.

    References: https://peps.python.org/pep-0508/#environment-markers
    """

    code = "ADO04"
    name = "cuda-only-requirement"
    summary = "a required package exists for CUDA machines only"
    files = MANIFESTS
    words = (
        "nvidia", "triton", "cupy", "flash", "xformers", "bitsandbytes", "apex", "deepspeed", "cuda", "-cu1", "mamba", "conv1d",
        "faiss-gpu", "onnxruntime-gpu", "awq", "gptq", "kaolin", "gsplat", "tensorrt", "cudf", "cuml", "nvdiffrast",
        "sageattention", "liger", "fbgemm", "Minkowski", "minkowski", "tiny", "transformer", "pycuda", "spconv", "dgl",
    )  # fmt: skip
    examples = (
        Example(
            "a library of CUDA",
            "nvidia-cublas-cu12==12.1.3.1\nnvidia-nccl-cu12==2.18.1\n",
            'nvidia-cublas-cu12==12.1.3.1; sys_platform != "darwin"\nnvidia-nccl-cu12==2.18.1; sys_platform == "linux"\n',
            "requirements.txt",
        ),
        Example(
            "triton", "triton>=2.0 # kernels\n", 'triton>=2.0; sys_platform == "linux" # kernels\n', "requirements.txt"
        ),
        Example("cupy", "cupy-cuda12x\n", 'cupy-cuda12x; sys_platform != "darwin"\n', "requirements.txt"),
        Example(
            "a list in pyproject",
            '[project]\ndependencies = ["triton", "numpy"]\n',
            '[project]\ndependencies = ["triton; sys_platform == \'linux\'", "numpy"]\n',
            "pyproject.toml",
        ),
        Example("one that is compiled", "flash-attn==2.5.8\n", None, "requirements.txt"),
        Example("a repository", "git+https://github.com/NVIDIA/apex.git\n", None, "requirements.txt"),
        Example("poetry", '[tool.poetry.dependencies]\nxformers = "^0.0.20"\n', None, "pyproject.toml"),
    )
    leaves = (
        Leave(
            'triton; sys_platform == "linux"\nflash-attn; platform_system == "Linux"\n',
            "by platform",
            "requirements.txt",
        ),
        Leave("# flash-attn\nnumpy\ntransformers\ntritonclient\ndgl\n", "comments and others", "requirements.txt"),
        Leave(
            '[project]\ndependencies = ["torch"]\n\n[project.optional-dependencies]\ncuda = ["flash-attn", "triton"]\n',
            "extras",
            "pyproject.toml",
        ),
        Leave('[project]\nkeywords = ["triton", "xformers"]\n', "keywords", "pyproject.toml"),
        Leave("tensorflow-gpu==2.0\njax[cuda12]\n", "not torch", "requirements.txt"),
    )

    def check(self, file: TextFile) -> Iterator[Finding]:
        if is_variant(file):
            return
        for requirement in requirements(file):
            if not requirement.has_platform:
                finding = self._judge(file, requirement)
                if finding is not None:
                    yield finding

    def _judge(self, file: TextFile, requirement: Requirement) -> Finding | None:
        start, end, written = requirement.start, requirement.end, requirement.written
        for pattern, where, marker in WHEELS:
            if pattern.match(requirement.name) and requirement.form != "repository":
                message = f"`{written}` has wheels for {where} only, and pip stops at it elsewhere; "
                if not requirement.is_plain:
                    return file.finding(self, start, end, f"{message}add the condition `{marker}` to it", Safety.MANUAL)
                marked = requirement.with_marker(marker)
                return file.finding(self, start, end, f"{message}write `{marked}`", Safety.SAFE, marked)
        answer = advice(requirement.name)
        if answer is None:
            return None
        return file.finding(
            self,
            start,
            end,
            f"`{written}` cannot be installed, or does nothing, without CUDA; decide whether all need it: "
            f"usual: make it optional (an extra), and {answer}",
            Safety.MANUAL,
        )
