"""Group O, second part: conda environments, lock files and install commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anydevice.finding import Finding, Safety
from anydevice.rules.lines import hits, style_of
from anydevice.rules.requirements import is_variant
from anydevice.rules.rule import Example, Leave, TextRule
from anydevice.rules.script import DOCKERFILES, SCRIPTS
from anydevice.rules.textfile import TextFile


class CudaCondaEnvironment(TextRule):
    """A conda environment lists CUDA packages, which conda cannot solve on macOS and which a CPU machine need not download.

    Conda has no markers. Instead: one `environment.yml` without them, and one for machines with CUDA beside it; from
    PyTorch's wheels (`pip: torch`) no `cudatoolkit` is needed at all. Reported once per file.

    References: https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html
    """

    code = "ADO06"
    name = "cuda-conda-environment"
    summary = "a conda environment lists CUDA packages"
    files = ("*.yml", "*.yaml")
    words = ("cuda", "nccl", "cudnn", "pytorch-gpu", "faiss-gpu")
    examples = (
        Example(
            "the toolkit", "name: a\ndependencies:\n  - pytorch=1.11\n  - cudatoolkit=11.3\n", None, "environment.yml"
        ),
        Example(
            "the selector",
            "dependencies:\n  - pytorch::pytorch-cuda=11.8\n  - nvidia::cudnn\n",
            None,
            "environment.yaml",
        ),
        Example("a build string", "dependencies:\n  - pytorch=1.8.0=py3.8_cuda11.1_cudnn8.0.5_0\n", None, "env.yml"),
    )
    leaves = (
        Leave("dependencies:\n  - pytorch\n  - cpuonly\n  # - cudatoolkit=11.3\n", "a comment", "environment.yml"),
        Leave("dependencies:\n  - cudatoolkit=11.3\n", "a file for CUDA machines", "environment-gpu.yml"),
        Leave("steps:\n  - cudatoolkit=11.3\n", "no environment", "workflow.yml"),
    )
    _PACKAGE = re.compile(
        rb"(?m)^[ \t]*-[ \t]+[\"']?(?:[\w\-/.]+::)?((?:cudatoolkit(?:-dev)?|cuda(?:-[\w\-]+)?|pytorch-cuda|pytorch-gpu|cudnn|nccl|libcu[a-z]+"
        rb"|libnv[a-z]+|magma-cuda\d+|faiss-gpu|cupy|torchtriton|pytorch[ =]+[\w.]+[ =]+[\w.]*cuda[\w.]*)(?:[ =<>!~][^\s\"'#]*)?)"
        rb"[\"']?[ \t\r]*(?:#.*)?$"
    )

    def check(self, file: TextFile) -> Iterator[Finding]:
        if is_variant(file) or not re.search(rb"(?m)^dependencies:", file.data):
            return
        found = list(hits(file.data, self._PACKAGE, "yaml"))
        if not found:
            return
        names = ", ".join(f"`{m.group(1).decode()}`" for m in found[:3]) + (", …" if len(found) > 3 else "")
        yield file.finding(
            self,
            found[0].start(1),
            found[0].end(1),
            f"conda finds {names} for CUDA machines only; decide how others set up: usual: move CUDA packages to a second file "
            "(`environment-cuda.yml`) and keep this one free of them",
            Safety.MANUAL,
        )


class CudaLockFile(TextRule):
    """A lock file holds CUDA builds, so that installing from it gives every machine those, or fails.

    Instead: change the requirements, then lock again; a lock file is not edited by hand. Reported once per file.
    """

    code = "ADO07"
    name = "cuda-lock-file"
    summary = "a lock file holds CUDA builds"
    files = (
        "*.lock",
        "*lock.json",
        "*lock.yml",
        "*lock.yaml",
        "pylock*.toml",
        "*conda*explicit*.txt",
        "*spec-file*.txt",
    )
    words = ("+cu1", "+cu9", "/whl/cu", "cudatoolkit", "_cuda1", "pytorch-cuda")
    examples = (
        Example(
            "uv",
            '[[package]]\nname = "torch"\nversion = "2.6.0+cu124"\nsource = { registry = "https://download.pytorch.org/whl/cu124" }\n',
            None,
            "uv.lock",
        ),
        Example("conda-lock", "package:\n- name: cudatoolkit\n  version: 11.8.0\n", None, "conda-lock.yml"),
    )
    leaves = (
        Leave(
            '[[package]]\nname = "nvidia-cublas-cu12"\nversion = "12.4.5.8"\n',
            "comes with torch, by platform",
            "uv.lock",
        ),
        Leave('[[package]]\nname = "torch"\nversion = "2.6.0"\n# "+cu124"\n', "a comment", "uv.lock"),
    )
    _BUILD = re.compile(rb"(?m)^[^#\n]*?(\w*\+cu\d\d+|/whl/cu\d+|\bcudatoolkit\b|\w+_cuda1\d[\w.]*|\bpytorch-cuda\b)")
    _BY_PLATFORM = re.compile(rb"marker[^\n]*sys_platform[^\n]*(?:whl/cu|\+cu)|resolution-markers[^\]]*darwin", re.S)

    def check(self, file: TextFile) -> Iterator[Finding]:
        found = self._BUILD.search(file.data)
        if found is None or self._BY_PLATFORM.search(file.data):
            return
        yield file.finding(
            self,
            found.start(1),
            found.end(1),
            f"`{found.group(1).decode()}` locks a CUDA build for all machines; mend the requirements (`+cu…`, the CUDA index), "
            "then lock again, with all platforms that are to be supported",
            Safety.MANUAL,
        )


class CudaInstallCommand(TextRule):
    """A script, image or notebook installs a CUDA build by name, wherever it runs.

    Instead: `pip install torch`, and the index of the machine at hand in a variable
    (`pip install torch --index-url "${TORCH_INDEX:-https://download.pytorch.org/whl/cu118}"`).

    References: https://pytorch.org/get-started/locally/
    """

    code = "ADO08"
    name = "cuda-install-command"
    summary = "a command installs CUDA builds"
    files = (*SCRIPTS, *DOCKERFILES)
    words = ("install", "uv add", "conda create")
    magics = "shell"
    examples = (
        Example(
            "pip",
            "pip install torch==1.8.0+cu111 -f https://download.pytorch.org/whl/torch_stable.html\n",
            None,
            "install.sh",
        ),
        Example(
            "an index", "RUN pip install torch --index-url https://download.pytorch.org/whl/cu126\n", None, "Dockerfile"
        ),
        Example("conda", "setup:\n\tconda install pytorch cudatoolkit=11.3 -c pytorch\n", None, "Makefile"),
        Example(
            "an extension",
            "RUN pip install --global-option=--cpp_ext --global-option=--cuda_ext .\n",
            None,
            "Dockerfile",
        ),
        Example("continued", "pip install \\\n  torch \\\n  flash-attn --no-build-isolation\n", None, "setup.sh"),
    )
    leaves = (
        Leave('# pip install torch+cu111\necho "pip install torch==1.8.0+cu111"\n', "prose", "install.sh"),
        Leave("pip install torch --index-url https://download.pytorch.org/whl/cpu\n", "the CPU build", "install.sh"),
        Leave("apt-get install -y cuda-toolkit-12-4\n", "the system's packages", "install.sh"),
        Leave(
            'pip install torch --index-url "${TORCH_INDEX:-https://download.pytorch.org/whl/cu118}"\n',
            "can be chosen",
            "i.sh",
        ),
    )
    _COMMAND = re.compile(
        rb"(?:\bpip[\d.]*|\buv(?: pip)?|\b(?:micro)?(?:conda|mamba)(?: env)?|\bpoetry)[ \t]+(?:install|add|create)\b(?:\\\r?\n|[^\n;&|])*"
    )
    _CUDA = re.compile(
        rb"[\w.\-]+===?[\w.]+\+\w*cu\d+|https?://[^\s\"']*/cu\d\d+\b[^\s\"']*|\b(?:cudatoolkit|pytorch-cuda)\b[=\w.]*"
        rb"|(?<![\w/\-])(?:flash-attn|xformers|bitsandbytes|triton|cupy-cuda\w+|nvidia-\w+-cu\d+|faiss-gpu|onnxruntime-gpu"
        rb"|mamba-ssm|causal-conv1d)(?![\w\-])[=<>~\w.]*|(?<=github\.com/)NVIDIA/apex|--cuda_ext"
    )

    def check(self, file: TextFile) -> Iterator[Finding]:
        if is_variant(file):
            return
        for command in hits(file.data, self._COMMAND, style_of(file.document.path.name)):
            found = self._CUDA.search(command.group())
            if found is None or b":-" in command.group()[: found.start()].rpartition(b" ")[2]:
                continue
            start = command.start() + found.start()
            yield file.finding(
                self,
                start,
                command.start() + found.end(),
                f"`{found.group().decode('utf-8', 'replace')}` is for CUDA machines; decide what others install: {_answer(found.group())}",
                Safety.MANUAL,
            )


def _answer(found: bytes) -> str:
    if b"+" in found and b"/" not in found:
        plain = found.partition(b"+")[0].decode()
        return f'usual: `{plain}`, with the index of the build in a variable (`--index-url "$TORCH_INDEX"`)'
    if b"/" in found and b"apex" not in found:
        return (
            'usual: put the address in a variable that can be set (`"${TORCH_INDEX:-'
            + found.decode("utf-8", "replace")
            + '}"`)'
        )
    if found.startswith((b"cudatoolkit", b"pytorch-cuda")):
        return "usual: leave it out where `nvidia-smi` is not found; PyTorch's wheels (`pip install torch`) need none"
    return "usual: install it only where `nvidia-smi` is found, and let the code do without it"
