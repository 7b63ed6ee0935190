"""Group N, first part: libraries that exist on CUDA only. What replaces each is data (`LIBRARIES`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from anydevice.finding import Edit, Finding, Safety
from anydevice.rules.guards import conditions
from anydevice.rules.rule import Example, Leave, PythonRule
from anydevice.rules.site import Context, Site
from anydevice.source.syntax import ancestors, field, first_named, same, text

_ATTENTION = "`F.scaled_dot_product_attention(q, k, v)` with heads before positions (`transpose(1, 2)`)"
_OWN = "its functions written with torch operators"
_SPARSE = "no counterpart: dense `nn.Conv3d`, or keep this part on CUDA"
_SPLAT = (
    "no counterpart on other devices: keep this part on CUDA (gsplat's reference functions in plain torch are slow)"
)
_SCATTER = "`torch.scatter_reduce` and `index_add_`, which every device has"
_POINTS = "`torch.cdist`, `topk` and `gather`"

# The module that is imported, and what does its work on other devices.
LIBRARIES: dict[str, str] = {
    "flash_attn": _ATTENTION,
    "flash_attn_interface": _ATTENTION,
    "flash_attn_2_cuda": _ATTENTION,
    "flash_attn_cuda": _ATTENTION,
    "xformers": _ATTENTION + " for `xformers.ops.memory_efficient_attention`, which has them after positions",
    "sageattention": _ATTENTION,
    "flashinfer": _ATTENTION,
    "apex": "torch.amp for apex.amp, DistributedDataParallel and SyncBatchNorm of torch.nn for apex.parallel, torch.optim for its optimizers",
    "amp_C": "the optimizers of torch.optim, which have `foreach` and `fused`",
    "bitsandbytes": "`torch.optim.AdamW` for its optimizers; its 8-bit layers need a build for the device",
    "deepspeed": "`torch.distributed.fsdp`, or a DeepSpeed built for the device",
    "mamba_ssm": "the reference functions in its `selective_scan_interface` (`selective_scan_ref`)",
    "selective_scan_cuda": "a loop over positions in plain torch (`selective_scan_ref` of mamba_ssm)",
    "causal_conv1d": "`nn.Conv1d` with `groups=channels` and padding on the left",
    "causal_conv1d_cuda": "`nn.Conv1d` with `groups=channels` and padding on the left",
    "transformer_engine": "the layers of torch.nn, and torch.autocast for precision",
    "liger_kernel": "the functions of torch.nn.functional",
    "fused_dense_lib": "`nn.Linear` and the activation",
    "dropout_layer_norm": "`nn.Dropout` and `nn.LayerNorm`",
    "rotary_emb": "rotary embedding in torch operators",
    "xentropy_cuda_lib": "`F.cross_entropy`",
    "spconv": _SPARSE,
    "torchsparse": _SPARSE,
    "MinkowskiEngine": _SPARSE,
    "cupy": "torch's own functions, or numpy on the CPU",
    "cupyx": "torch's own functions, or numpy and scipy on the CPU",
    "cudf": "pandas",
    "cuml": "scikit-learn",
    "rmm": "nothing: torch has its own allocator",
    "pycuda": "torch's own functions, or torch.compile",
    "numba": "`numba.njit` on the CPU, or torch's own functions",
    "kaolin": "pytorch3d, or " + _OWN,
    "nvdiffrast": "pytorch3d's rasterizer, which runs on the CPU",
    "tinycudann": "an embedding and `nn.Linear` layers in plain torch",
    "diff_gaussian_rasterization": _SPLAT,
    "simple_knn": _POINTS,
    "gsplat": _SPLAT,
    "raymarching": _OWN,
    "gridencoder": _OWN,
    "neural_renderer": "pytorch3d's rasterizer, which runs on the CPU",
    "soft_renderer": "pytorch3d's rasterizer, which runs on the CPU",
    "DCNv2": "`torchvision.ops.DeformConv2d`",
    "dcn_v2": "`torchvision.ops.DeformConv2d`",
    "deform_conv_cuda": "`torchvision.ops.deform_conv2d`",
    "MultiScaleDeformableAttention": "its `ms_deform_attn_core_pytorch`, made of `F.grid_sample`",
    "torch_scatter": _SCATTER,
    "torch_sparse": "`torch.sparse` tensors",
    "torch_cluster": _POINTS,
    "pointnet2_ops": _POINTS,
    "pointnet2_cuda": _POINTS,
    "pointops": _POINTS,
    "pointops_cuda": _POINTS,
    "knn_cuda": _POINTS,
    "chamfer_3D": "`torch.cdist(a, b).min(dim)`",
    "emd_cuda": "`scipy.optimize.linear_sum_assignment`",
    "correlation_cuda": "`F.unfold` and a product",
    "spatial_correlation_sampler": "its own CPU build",
    "resample2d_cuda": "`F.grid_sample`",
    "channelnorm_cuda": "`torch.linalg.vector_norm(x, dim=1, keepdim=True)`",
    "inplace_abn": "`nn.BatchNorm2d` and the activation",
    "iou3d_nms_cuda": "a rotated IoU in torch operators",
    "auto_gptq": "the unquantized weights, or GGUF",
    "gptqmodel": "the unquantized weights, or GGUF",
    "exllamav2": "the unquantized weights, or GGUF",
    "awq": "the unquantized weights, or GGUF",
    "quant_cuda": "the unquantized weights",
    "tensorrt": "torch.compile, or onnxruntime",
    "torch_tensorrt": "torch.compile",
    "torch2trt": "torch.compile, or onnxruntime",
    "nvdiffmodeling": _OWN,
}
_NUMBA = re.compile(r"\bnumba\.cuda\b|\bfrom\s+numba\s+import\s[^#]*\bcuda\b")
_CAUGHT = re.compile(
    r"except(?:\s*:|[^:]*\b(?:ImportError|ModuleNotFoundError|Exception|BaseException|OSError|RuntimeError)\b)"
)


def imported(site: Site) -> Node | None:
    """The import statement of which the leaf is the package: `import leaf.x`, `from leaf.x import y`."""
    dotted = site.leaf.parent
    if dotted is None or dotted.type != "dotted_name" or not same(first_named(dotted), site.leaf):
        return None
    holder = dotted.parent
    if holder is not None and holder.type == "aliased_import":
        holder = holder.parent
    if holder is None or holder.type not in ("import_statement", "import_from_statement"):
        return None
    module = field(holder, "module_name")
    return holder if holder.type == "import_statement" or same(module, dotted) else None


def is_optional(statement: Node) -> bool:
    """Whether an import is caught when it fails, made on a condition, or put off until a function runs."""
    for parent in ancestors(statement):
        if parent.type in ("if_statement", "function_definition"):
            return True
        if parent.type == "try_statement" and any(
            c.type == "except_clause" and _CAUGHT.match(text(c)) for c in parent.children
        ):
            return True
    return False


def first_of_its_kind(context: Context, statement: Node, package: str) -> bool:
    """Whether no import before `statement` needs the same package."""
    pattern = re.compile(rf"(?:import|from)\s+{re.escape(package)}\b")
    return not any(
        other.start_byte < statement.start_byte and pattern.match(text(other)) and not is_optional(other)
        for other in context.module.names.import_statements
    )


class CudaOnlyImport(PythonRule):
    """A library whose import fails where there is no CUDA, at the top of a module: nothing of the module works there.

    Instead: what does the same on other devices (each finding says what). A library that is used under conditions only
    can be imported in `try`, so that the rest works.
    """

    code = "ADN02"
    name = "cuda-only-import"
    summary = "imports a library that needs CUDA"
    anchors = tuple(LIBRARIES)
    needs = (
        (
            r"\n(?:import|from)[ \t]+(?:" + "|".join(map(re.escape, LIBRARIES)) + r")\b",
            r"\A(?:import|from)[ \t]+(?:" + "|".join(map(re.escape, LIBRARIES)) + r")\b",
        ),
    )
    examples = (
        Example(
            "attention",
            "import torch\nfrom flash_attn import flash_attn_func\n\ndef f(q):\n    return flash_attn_func(q, q, q)\n",
        ),
        Example("an operator", "from dcn_v2 import DCN\n\nclass A(DCN):\n    pass\n"),
        Example("numba's cuda", "from numba import cuda\n\n@cuda.jit\ndef k(x):\n    pass\n"),
        Example(
            "used on a condition",
            "import torch\nfrom apex import amp  # fp16\n\ndef f(m, o):\n    if args.fp16:\n        m, o = amp.initialize(m, o)\n",
            "import torch\ntry:\n    from apex import amp  # fp16\nexcept ImportError:\n    amp = None\n\n"
            "def f(m, o):\n    if args.fp16:\n        m, o = amp.initialize(m, o)\n",
        ),
    )
    leaves = (
        Leave("try:\n    import apex\nexcept ImportError:\n    pass\n", "the import may fail"),
        Leave("def f():\n    import xformers.ops\n", "imported when it is needed"),
        Leave("from .spconv import Conv\nimport mine.apex\n", "modules of one's own"),
        Leave("from numba import njit\n", "runs on the CPU"),
        Leave("import torch\napex = 1\nawq = f(apex)\n", "names"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        statement = imported(site)
        if statement is None or is_optional(statement):
            return
        context, package = site.context, site.word
        if package == "numba" and not _NUMBA.search(text(statement)):
            return
        if not first_of_its_kind(context, statement, package):
            return
        edits = self._tried(context, statement)
        message = f"`{package}` needs CUDA; elsewhere, use {LIBRARIES[package]}"
        if edits:
            message += ". It is used on conditions only: import it in `try: ... except ImportError:`"
        yield context.finding(self, statement, message, Safety.UNSAFE if edits else Safety.MANUAL, edits)

    def _tried(self, context: Context, statement: Node) -> list[Edit]:
        """Edits that let the import fail, when what it binds is only used on conditions in functions."""
        module = context.module
        bound = [b for b in module.names.imports if statement.start_byte <= b.node.start_byte < statement.end_byte]
        end = module.line_end(statement.end_byte - 1)
        rest = module.data[statement.end_byte : end].strip()
        plain = module.is_top_level(statement) and module.starts_line(statement) and (not rest or rest.startswith(b"#"))
        several = statement.type == "import_statement" and len(statement.children_by_field_name("name")) != 1
        names = list(dict.fromkeys(text(b.node) for b in bound))
        if not plain or several or not names or any(len(module.names.bindings(name)) != 1 for name in names):
            return []
        uses = [use for name in names for use in module.names.references(name)]
        if not uses or any(module.at_import(use) or not _on_condition(use) for use in uses):
            return []
        while end > statement.end_byte and module.data[end - 1 : end] in (b"\n", b"\r"):
            end -= 1
        unit = module.indent_unit
        return [
            module.insert(statement.start_byte, f"try:\n{unit}"),
            module.insert(end, f"\nexcept ImportError:\n{unit}{' = '.join(names)} = None"),
        ]


def _on_condition(use: Node) -> bool:
    function = next((a for a in ancestors(use) if a.type == "function_definition"), None)
    return function is not None and any(c.start_byte >= function.start_byte for c, _ in conditions(use))


class GpuSearchIndex(PythonRule):
    """`faiss.StandardGpuResources`, `index_cpu_to_gpu` and `GpuIndex*` exist in faiss-gpu only.

    Instead: the index as it is where `faiss.get_num_gpus()` is 0.
    """

    code = "ADN03"
    name = "gpu-search-index"
    summary = "exists in faiss-gpu only"
    anchors = ("faiss",)
    needs = (r"faiss\.\w*[gG]pu",)
    examples = (
        Example(
            "moved to all GPUs",
            "import faiss\nindex = faiss.index_cpu_to_all_gpus(index)\n",
            "import faiss\nindex = faiss.index_cpu_to_all_gpus(index) if hasattr(faiss, 'StandardGpuResources') else index\n",
        ),
        Example("resources", "import faiss\nr = faiss.StandardGpuResources()\n"),
    )
    leaves = (
        Leave("import faiss\nindex = faiss.IndexFlatL2(8)\n", "runs on the CPU"),
        Leave("import faiss\nif gpu:\n    r = faiss.StandardGpuResources()\n", "made on a condition"),
    )

    def check(self, site: Site) -> Iterator[Finding]:
        call = site.call
        if (
            call is None
            or call.receiver is None
            or not re.search(r"(?i)gpu", call.method or "")
            or call.method == "get_num_gpus"
        ):
            return
        if any(True for _ in conditions(call.node)) or not text(call.function).startswith("faiss."):
            return
        index = call.argument(0, "index")
        edits = []
        if call.method == "index_cpu_to_all_gpus" and index is not None:
            written = f"{text(call.node)} if hasattr(faiss, 'StandardGpuResources') else {text(index.value)}"
            edits = [site.module.replace(call.node, written)]
        yield site.context.finding(
            self,
            call.node,
            'exists in faiss-gpu only: keep the index as it is where `hasattr(faiss, "StandardGpuResources")` is false',
            Safety.SAFE if edits else Safety.MANUAL,
            edits,
        )
