"""Words of torch's vocabulary, and what people call things, that tell where a value lives. Data only."""

from __future__ import annotations

import re


def listed(words: str) -> frozenset[str]:
    """The set of the words of a text."""
    return frozenset(words.split())


FACTORIES = listed(
    "zeros ones empty full arange range linspace logspace eye rand randn randint randperm tensor tril_indices"
    " triu_indices hann_window hamming_window blackman_window bartlett_window kaiser_window normal"
    " cartesian_prod empty_strided scalar_tensor"
)
LEGACY = listed(
    "Tensor FloatTensor DoubleTensor HalfTensor LongTensor IntTensor ShortTensor ByteTensor CharTensor BoolTensor"
)
# The names of functions that make tensors on the CPU unless told otherwise, where a rule is asked about them.
MAKERS = tuple(sorted((FACTORIES | LEGACY | {"from_numpy"}) - {"range", "normal"}))
# What a file must have for a tensor to be made in it without a device (`needs` of a rule): `.zeros(...)` with no
# `device` among its arguments. Calls of a from-imported `zeros` are rare and left to the exact look at other sites.
MADE_HERE = (
    r"\.(?<!np\.)(?<!numpy\.)(?:"
    + "|".join(MAKERS)
    + r")\((?![^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\bdevice\b)"
)
# The same on a line that does not place the tensor at once.
MADE_ON_A_LINE = r"\n(?![^\n]*(?:device|\.to\(|type_as|Parameter|register_buffer))[^\n]*" + MADE_HERE
# Code that is run, not only defined: the place for what a program forgets to move.
SCRIPT = (
    r"\n(?:if __name__|def (?:main|train|test|eval|run|fit)|for |with "
    r"|(?!log)[a-z]\w*(?:, ?\w+)* = (?!logging|get_logger|TypeVar|re\.)[\w.]+\()"
)
# A table that is looked up by what is likely a tensor.
INDEXED = (
    r"\w\[(?:\w*step\w*|ts?|\w*idx|\w*ind(?:ex|ices)|\w*labels?|\w*ids|\w*targets?|y|\w*perm|\w*mask|order|\w*tokens?)"
    r"[\]\[]|\.gather\(|index_select\(|\.take\("
)
LIKE = listed("zeros_like ones_like empty_like full_like rand_like randn_like randint_like")
# Methods whose result is no tensor, or a host value.
NO_TENSOR = listed(
    "size dim q_scale q_zero_point ndimension numel nelement item tolist numpy stride get_device is_contiguous data_ptr"
    " element_size type_ state_dict parameters named_parameters children modules eval_ backward step"
    " zero_grad keys items_ split_ append extend format"
)
NO_TENSOR_ATTRIBUTES = listed("shape device dtype ndim is_cuda is_leaf requires_grad itemsize layout in_features")
SAME_ATTRIBUTES = listed("data T mT H real imag grad")
RESHAPING = listed("view reshape unsqueeze expand repeat tile flatten permute transpose t")
REDUCTIONS = listed("sum mean max min prod norm std var median any all")
NOT_TENSOR_OPS = re.compile(
    r"torch\.(?:load|save|device|manual_seed|no_grad|enable_grad|set_\w+|get_\w+|is_\w+|jit\..*|compile|Size|Generator|"
    r"finfo|iinfo|cuda\..*|backends\..*|distributed\..*|utils\..*|optim\..*|nn\.utils\..*|hub\..*|onnx\..*|numel|"
    r"autocast|amp\..*|multiprocessing\..*|accelerator\..*|float\d*|int\d*|long|bool|half|double|"
    r"nn\.init\..*|random\..*|profiler\..*|library\..*|ops\..*|fx\..*|overrides\..*)\Z"
)
DTYPE = re.compile(
    r"(?:\w+\.)*(?:float(?:16|32|64)?|double|half|bfloat16|u?int(?:8|16|32|64)?|long|short|bool|uint8|cfloat|complex\d+"
    r"|\w*dtype\w*|channels_last(?:_3d)?)\Z"
)
STATELESS = re.compile(
    r"(?:\w*Loss|\w*ReLU\d*|GELU|SiLU|ELU|SELU|CELU|Sigmoid|LogSigmoid|Tanh|Softmax\w*|LogSoftmax|Softplus|Dropout\w*|Flatten|"
    r"Unflatten|Identity|\w*Pool\dd|Upsample\w*|\w*Pad\dd|PixelShuffle|Unfold|Fold|CosineSimilarity|PairwiseDistance|"
    r"Mish|Hardtanh|Hardswish|Threshold)\Z"
)
STATE = re.compile(
    r"Parameter\(|register_(?:buffer|parameter|module)\(|add_module\(|torchvision|from_pretrained|models\.\w+\("
    r"|nn\.(?!\w*(?:Loss|ReLU|Module|Softmax|Dropout|Pool|Pad|functional|init|utils|Parameter|Sigmoid|Tanh|Identity|Flatten)\b)"
    r"[A-Z]\w*\("
)
PLAIN_PARAMETER = re.compile(
    r"(?:self|cls|n|k|i|j|h|w|d|c|t|b|bs|bsz|\w*(?:size|sizes|shape|dim|dims|len|lens|length|lengths|idx|step|steps|epoch"
    r"|device|dtype|mode|name|path|batch|count|rate|ratio|temperature|config|cfg|args|opts?|kwargs|eps|gamma|scale|max|min"
    r"|radius|npoint|nsample|height|width|depth|level|layer|type|key|fn|func|callback|tokenizer|verbose))\Z"
    r"|(?:n|num|max|min|use|is|with|return|no|do|output|input_size|seq_len)_"
)
PLAIN_TYPE = re.compile(r"\b(?:int|float|bool|str|Size|Callable|dict|Dict|ndarray|Path|device|dtype)\b")
CONSTRUCTION = re.compile(
    r"__init__\Z|__new__\Z|__post_init__\Z|reset_parameters\Z|setup\Z|build|_build|_?init(?!_hidden|_state)|from_|load_|_load|make_"
)
STATIC = re.compile(r"@(?:static|class)method")
MODEL_NAME = re.compile(
    r"(?i)(?:\A|[._])\w*(?:net|net[a-z]|model|encoder|decoder|generator|discriminator|critic|actor|policy|backbone|vae)\d?\Z"
)
INDEX_NAME = re.compile(r"(?:[bijkln]|ii|idx|ind|index|step|epoch|level|layer|\w*_(?:idx|index|id))\Z")
LOADER = re.compile(r"(?i)(?:\A|[._])(?:\w*loader|\w+_dl)\Z")
WRAPPERS = listed("enumerate tqdm tqdm.tqdm zip list tuple reversed next iter track trange")
MODULE_CHAIN = listed("to cuda eval train float half double bfloat16 apply requires_grad_")
COMMON_METHODS = listed(
    "forward __call__ step update get add append sample reset load save train eval to cuda cpu state_dict"
    " parameters backward view size sum mean apply copy clone items keys values fit predict encode decode run"
)

CONTAINER_NODES = listed("list tuple dictionary set list_comprehension dictionary_comprehension expression_list")
# Libraries (and names of functions) that move modules and batches out of sight.
MOVERS = (
    b"ccelerator(",
    b"accelerate.",
    b"accelerate ",
    b"ightning",
    b"fabric",
    b"deepspeed",
    b"prepare(",
    b"refetch",
    b"DataParallel",
    b"to_device",
)
BATCH_MOVERS = (*(word for word in MOVERS if word != b"DataParallel"), b"DeviceLoader", b"nvidia.dali")
DEVICE_USES = (b"Module", b".to(", b".cuda(", b"device=", b"device =")
DEFAULTS = (b"set_default_tensor_type", b"set_default_device", b"with torch.device(")
