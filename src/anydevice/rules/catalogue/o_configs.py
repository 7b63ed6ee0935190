"""Group O, third part: devices named in YAML, JSON, TOML and INI files, and code in templates."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anydevice.finding import Finding, Safety
from anydevice.rules import options
from anydevice.rules.lines import hits, style_of
from anydevice.rules.rule import Example, Leave, TextRule
from anydevice.rules.textfile import TextFile

_LIMIT = 256 << 10  # what is larger is data: annotations, vocabularies, logs
_KEY = rb"[\w.\-]*(?:device|gpu|cuda|accelerator|backend|map_location)[\w.\-]*"
_VALUE = rb"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|\([^)\n]*\)|\[[^\]\n]*\]|(?:\r?\n[ \t]*-[ \t]+[\w:\"']+[ \t]*(?=\r?\n|\Z))+|[^\s#;,{}\[\]\"'][^\n#,{}\]]*)"
_PATTERNS = {
    "yaml": re.compile(
        rb"(?mi)(?:^[ \t]*(?:-[ \t]+)*|(?P<flow>[{,])[ \t]*)(?P<q>[\"']?)(?P<key>"
        + _KEY
        + rb")(?P=q)[ \t]*:(?:[ \t]+|(?=\r?\n))"
        + _VALUE
    ),
    "json": re.compile(rb"(?mi)(?:^[ \t]*|[{,][ \t]*)\"(?P<key>" + _KEY + rb")\"[ \t]*:[ \t]*" + _VALUE),
    "toml": re.compile(
        rb"(?mi)(?:^[ \t]*|(?P<flow>[{,])[ \t]*)(?P<q>[\"']?)(?P<key>" + _KEY + rb")(?P=q)[ \t]*=[ \t]*" + _VALUE
    ),
    "ini": re.compile(rb"(?mi)^(?P<key>" + _KEY + rb")[ \t]*[=:][ \t]*(?P<value>[^\n]*?)[ \t\r]*$"),
}
_NOT_CONFIG = re.compile(
    r"package(?:-lock)?\.json|ts?config.*\.json|composer\.json|.*(?:annotations?|instances|captions|vocab|tokenizer|results?|metrics|log)s?"
    r"[\w.\-]*\.json|mkdocs\.ya?ml|.*lock\.(?:json|ya?ml)|pylock.*\.toml|.*compose[\w.\-]*\.ya?ml|\.pre-commit-config\.yaml|codecov\.ya?ml",
    re.I,
)


class DeviceInConfig(TextRule):
    """A configuration file asks for CUDA: `device: cuda`, `gpu_ids: [0]`, `use_cuda: true`, `accelerator: gpu`, `backend: nccl`.

    What a value may be is decided by the code that reads it, so nothing is written here. Instead: teach that code to take
    `auto` for the device of the machine (`torch.accelerator.current_accelerator()`), then write `auto`; saved
    configurations that say `cuda` should still load.

    References: https://docs.pytorch.org/docs/stable/accelerator.html
    """

    code = "ADO10"
    name = "device-in-config"
    summary = "a configuration file asks for CUDA"
    files = ("*.yaml", "*.yml", "*.json", "*.json5", "*.toml", "*.ini", "*.cfg", "*.conf")
    words = ("cuda", "gpu", "CUDA", "GPU", "device", "DEVICE", "nccl", "NCCL")
    examples = (
        Example("a device", "model:\n  device: cuda:0 # where\n", None, "config.yaml"),
        Example("a quoted device", 'DEVICE: "cuda"\n', None, "config.yml"),
        Example("numbers", "gpu_ids: [0, 1]\n", None, "train.yaml"),
        Example("a list of numbers", "train:\n  gpu_ids:\n    - 0\n    - 1\n", None, "train.yaml"),
        Example("yacs", "MODEL:\n  DEVICE_ID: ('0')\n", None, "baseline.yml"),
        Example("a flag", "CUDA: true\n", None, "options.yml"),
        Example("a count", '{\n  "n_gpu": 1,\n  "arch": {"type": "x"}\n}\n', None, "config.json"),
        Example("lightning", "trainer: {accelerator: gpu, devices: 1}\n", None, "trainer.yaml"),
        Example("a process group", '{"dist_config": {"dist_backend": "nccl"}}\n', None, "config.json"),
        Example("toml", '[train]\ndevice = "cuda"\n', None, "settings.toml"),
        Example("ini", "[train]\nuse_cuda = True\n", None, "settings.ini"),
        Example("a section of pyproject", '[tool.mytool]\ndevice = "cuda:1"\n', None, "pyproject.toml"),
    )
    leaves = (
        Leave("# device: cuda\nname: x # device: cuda\n", "comments", "config.yaml"),
        Leave("notes: |\n  device: cuda\n  gpu_ids: [0]\nother: 1\n", "text", "config.yaml"),
        Leave('notes: "first,\n  device: cuda"\nother: 1\n', "text in quotes", "config.yaml"),
        Leave("description: a, device: cuda\n", "a sentence", "config.yaml"),
        Leave(
            "device: auto\ndevice_ids: []\ngpu_ids: -1\nuse_cuda: false\nno_cuda: false\nn_gpu: 0\ngpu: null\n",
            "others",
            "c.yaml",
        ),
        Leave("backend: agg\ndevice: cpu\naccelerator: auto\naccelerator: ddp\ndevices: 1\n", "others", "config.yaml"),
        Leave('{"text": "\\"device\\": \\"cuda\\"", "caption": "gpu: 1"}\n', "text in JSON", "config.json"),
        Leave('{"images": [], "annotations": [{"device": "cuda"}]}\n', "annotations", "annotations_train.json"),
        Leave(
            '{"device": "cuda", "data": "' + "x" * (256 << 10) + '"}\n', "too large for a configuration", "data.json"
        ),
        Leave("device: mps\nmap_location: cpu\n", "other devices", "config.yaml"),
        Leave('{"device_id": 3, "device": "camera"}\n', "another kind of device", "sensor.json"),
    )

    def check(self, file: TextFile) -> Iterator[Finding]:
        name = file.document.path.name
        style = style_of(name)
        if len(file.data) > _LIMIT or _NOT_CONFIG.fullmatch(name) or style not in _PATTERNS:
            return
        about_gpus = re.search(rb"(?i)cuda|gpu", file.data) is not None
        seen: set[tuple[str, str]] = set()
        for match in hits(file.data, _PATTERNS[style], style):
            if match.groupdict().get("flow") and not _in_braces(file.data, match.start("flow")):
                continue
            key = match.group("key").decode()
            value = _clean(match.group("value").decode("utf-8", "replace"))
            if key == "CUDA_VISIBLE_DEVICES" and style == "yaml":
                continue  # the environment of a service: gpu-reservation
            if options.plain(key) in options.AMBIGUOUS and not (about_gpus or key.isupper()):
                continue
            advice = _advice(key, value)
            if advice is not None and (key, value) not in seen:
                seen.add((key, value))
                start = match.start("key")
                end = match.start("value") + len(match.group("value").rstrip())
                yield file.finding(self, start, end, f"`{key}: {value}` {advice}", Safety.MANUAL)


def _in_braces(data: bytes, offset: int) -> bool:
    """Whether the brace or comma at `offset` belongs to a mapping in braces on its line."""
    before = data[data.rfind(b"\n", 0, offset) + 1 : offset + 1]
    return before.count(b"{") > before.count(b"}") and before.count(b'"') % 2 == 0 and before.count(b"'") % 2 == 0


def _clean(value: str) -> str:
    value = re.sub(r"\s*\n\s*-\s+", ", ", value).removeprefix(", ").strip().rstrip(",")
    while len(value) > 1 and value[0] + value[-1] in ('""', "''", "()"):
        value = value[1:-1].strip()
    return value


def _advice(key: str, value: str) -> str | None:
    """What to decide about a key and its value; None where they do not ask for CUDA."""
    name, low = options.plain(key), value.lower()
    parts = [part.strip(" \"'[]") for part in low.split(",")]
    if "backend" in name and low == "nccl":
        return (
            "works on CUDA only: let the code that reads it take none, and choose by "
            "`torch.distributed.get_default_backend_for_device(device)`; usual: `null` here"
        )
    if "accelerator" in name and low in ("gpu", "cuda"):
        return "stops where there is no GPU: usual: `auto`, which Lightning resolves to the accelerator there is, or to the CPU"
    if (
        ("device" in name or name in ("map_location", "accelerator", "backend", "gpu"))
        and parts
        and all(map(options.is_device, parts))
    ):
        return (
            "asks every machine for CUDA: decide what the code that reads it takes instead; usual: `auto`, for "
            "`torch.accelerator.current_accelerator()` or the CPU, `cuda` still being accepted"
        )
    if name in options.FLAGS and low in options.TRUE and not (name == "gpu" and low == "1"):
        return (
            "asks for CUDA: decide what it means elsewhere; usual: leave it out, and let the code that reads it use what "
            "`torch.accelerator.is_available()` finds"
        )
    if name in options.COUNTS and re.fullmatch(r"[1-9]\d*", low):
        return (
            "counts on GPUs: decide what other machines do; usual: the code that reads it takes the smaller of this and "
            "`torch.accelerator.device_count()`, and the CPU where that is 0"
        )
    if (
        (name in options.NUMBERS or (name == "devices" and low.startswith("[")))
        and options.is_number(low)
        and low != "[]"
    ):
        return (
            "numbers CUDA devices: decide what it means where there are none; usual: the code that reads it uses "
            "`torch.device(device.type, index)` on machines with several, else the one device there is"
        )
    return None


class CudaInTemplate(TextRule):
    """A template, or a notebook's `%%writefile`, writes Python that asks for CUDA; it is scanned only once it is a `.py` file.

    Instead: change the template as the scanner would change the code. Reported once per file.
    """

    code = "ADO11"
    name = "cuda-in-template"
    summary = "a template writes code that asks for CUDA"
    files = ("*.j2", "*.jinja", "*.jinja2", "*.mako", "*.tmpl", "*.tpl", "*.template", "*.py.in", "*.py.txt")
    words = ("cuda",)
    magics = "written"
    examples = (Example("a template", "import torch\nmodel = {{ model }}().cuda()\n", None, "train.py.j2"),)
    leaves = (Leave("{# model.cuda() #}\n# model.cuda()\nRun on cuda.\n", "comments and prose", "readme.j2"),)
    _CODE = re.compile(rb"(?m)^(?!\s*(?:#|\{#))[^\n#]*?(\.cuda\(|\btorch\.cuda\.\w+|[\"']cuda(?::\d+)?[\"'])")

    def check(self, file: TextFile) -> Iterator[Finding]:
        found = list(self._CODE.finditer(file.data))
        if found:
            more = f", and {len(found) - 1} more here" if len(found) > 1 else ""
            yield file.finding(
                self,
                found[0].start(1),
                found[0].end(1),
                f"the code that is written here asks for CUDA (`{found[0].group(1).decode()}`{more}): write `.to(device)` with a device "
                "chosen in that code, and scan the file that comes of it",
                Safety.MANUAL,
            )
