"""Group O, fourth part: shell scripts, Makefiles, job files and the shell commands of notebooks."""

from __future__ import annotations

import re

from anydevice.rules.rule import Example, Leave
from anydevice.rules.script import DOCKERFILES, SCRIPTS, ScriptRule


class VisibleDevicesInScript(ScriptRule):
    """`CUDA_VISIBLE_DEVICES=0 python ...` chooses among NVIDIA (and ROCm) GPUs; other accelerators do not read it.

    It does no harm elsewhere, but chooses nothing either. Instead: keep it, and set the variable of the other
    accelerator where one is meant to be chosen; an empty value, which forces the CPU, needs an option of the program.

    References: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables,
    https://www.intel.com/content/www/us/en/docs/dpcpp-cpp-compiler/developer-guide-reference/current/environment-variables.html
    """

    code = "ADO20"
    name = "visible-devices-in-script"
    summary = "a script chooses GPUs by CUDA_VISIBLE_DEVICES"
    files = (*SCRIPTS, *DOCKERFILES)
    words = ("CUDA_VISIBLE_DEVICES",)
    magics = "shell"
    examples = (
        Example("before a command", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n", None, "train.sh"),
        Example("exported", "export CUDA_VISIBLE_DEVICES=0\npython train.py\n", None, "train.sh"),
        Example("the CPU", 'CUDA_VISIBLE_DEVICES="" python train.py\n', None, "train.sh"),
        Example("make", "train:\n\tCUDA_VISIBLE_DEVICES=$(GPU) python train.py\n", None, "Makefile"),
    )
    leaves = (
        Leave('# CUDA_VISIBLE_DEVICES=0 python x.py\necho "CUDA_VISIBLE_DEVICES=0"\n', "prose", "train.sh"),
        Leave("cat <<EOF\nCUDA_VISIBLE_DEVICES=0 python x.py\nEOF\nls\n", "a text", "train.sh"),
        Leave(
            'echo "$CUDA_VISIBLE_DEVICES"\nif [ -n "$CUDA_VISIBLE_DEVICES" ]; then ls; fi\n', "only read", "train.sh"
        ),
    )
    _NAME = (
        rb"(?<![\w$])(?P<at>(?:(?:\$env:|set[ \t]+)?CUDA_VISIBLE_DEVICES[ \t]?=[ \t]?"
        rb"|%(?:set_)?env[ \t]+CUDA_VISIBLE_DEVICES[ \t]*[=\t ][ \t]*|ENV[ \t]+CUDA_VISIBLE_DEVICES[ \t]+)"
    )
    patterns = (
        (
            re.compile(_NAME + rb"(?:-1|\"(?:-1)?\"|''|(?=\s)))"),
            "forces the CPU on machines with CUDA only; decide whether others should use it too: usual: an option of the program "
            "(`--device cpu`), given here as well",
        ),
        (
            re.compile(_NAME + rb"(?!-1|\"\"|\"-1\"|'')[^\s;&|]+)"),
            "chooses among NVIDIA GPUs and means nothing to other accelerators; usual: keep it, and where another is to be chosen set its "
            "own variable too (`HIP_VISIBLE_DEVICES` for ROCm, `ZE_AFFINITY_MASK` for Intel, `ASCEND_RT_VISIBLE_DEVICES` for Ascend)",
        ),
    )


class GpuOptionInScript(ScriptRule):
    """A script passes `--device cuda`, `--gpu 0` or `device=cuda` to a program, and so fails without CUDA.

    Instead: leave the option out where the program's default is the device of the machine, or take it from a variable
    (`--device "${DEVICE:-cuda}"`).
    """

    code = "ADO21"
    name = "gpu-option-in-script"
    summary = "a script passes a CUDA device to a program"
    words = ("cuda", "gpu", "CUDA", "GPU", "DEVICE")
    magics = "shell"
    examples = (
        Example("a device", "python train.py --device cuda:0 --lr 1\n", None, "train.sh"),
        Example("a number", "python train.py --gpu_ids 0,1,2 \\\n  --fp16\n", None, "train.sh"),
        Example("a flag", "python train.py --use_cuda\n", None, "train.sh"),
        Example("an override", "python train.py trainer.accelerator=gpu trainer.gpus=1\n", None, "train.sh"),
        Example("yacs", "python train.py MODEL.DEVICE_ID \"('0')\" MODEL.DEVICE cuda\n", None, "train.sh"),
    )
    leaves = (
        Leave(
            "# python train.py --device cuda\npython train.py --device cpu --gpu -1 --no_cuda\n", "others", "train.sh"
        ),
        Leave('python train.py --device "${DEVICE:-cuda}"\n', "can be chosen", "train.sh"),
        Leave(
            "docker run --gpus all image\nnvcc --cuda x.cu\npip install . --global-option=--cuda_ext\n",
            "other tools",
            "train.sh",
        ),
        Leave('if [ "$gpu" = "" ]; then gpu=0; fi\n', "a variable", "train.sh"),
        Leave("#SBATCH --gpus 1\nsrun --gpus=1 x\n", "a scheduler's", "train.sh"),
    )
    unless = re.compile(
        rb"\b(?:docker|podman|singularity|apptainer|nvcc|srun|sbatch|salloc|#SBATCH|#PBS)\b|^\s*#SBATCH"
    )
    patterns = (
        (
            re.compile(rb"(?P<at>(?<=[ \t])--?[\w\-]*(?:device|accelerator)s?[ =][\"']?(?:cuda(?::\d+)?|gpu)\b[\"']?)"),
            "fails without CUDA; decide how others run this: usual: leave the option out, its default being the device of the machine, or "
            'take it from a variable (`"${DEVICE:-cuda}"`)',
        ),
        (
            re.compile(
                rb"(?P<at>(?<=[ \t])(?:--?(?:[\w\-]*gpus?(?:[_\-]?(?:ids?|list|index|num|no|devices?))?)[ =]|[\w.]+\.gpus?(?:_ids?)?=|[\w.]*DEVICE_IDS?[ =])"
                rb"[\"'\[(]*\d+(?:,\d+)*[\"'\])]*)(?=[\s\\;&|]|\Z)"
            ),
            "numbers or counts CUDA devices; decide how others run this: usual: leave the option out, or take it from a variable",
        ),
        (
            re.compile(
                rb"(?P<at>(?<=[ \t])--?(?:use[_\-]?)?(?:cuda|gpu)(?:[ =](?:[Tt]rue|1)\b)?)(?=[ \t]*(?:-[\-A-Za-z]|[\\;&|\n\r]|\Z))"
            ),
            "asks for CUDA; decide how others run this: usual: nothing to change once the program uses the accelerator there is for it",
        ),
        (
            re.compile(
                rb"(?P<at>(?<=[ \t])[+]*[\w.]*(?:device|accelerator|DEVICE)[\w.]*(?:=| (?=cuda))[\"']?(?:cuda(?::\d+)?|gpu)\b[\"']?)"
            ),
            "asks for CUDA; decide how others run this: usual: `auto`, or the value from a variable (`${DEVICE:-cuda}`)",
        ),
    )


class GpuProcessCount(ScriptRule):
    """A launcher starts one process per GPU, for a fixed number of GPUs.

    Instead: `torchrun --nproc_per_node="${NPROC:-8}"`, or `--nproc_per_node=auto`, which counts the GPUs and, where there
    are none, the CPUs.

    References: https://docs.pytorch.org/docs/stable/elastic/run.html
    """

    code = "ADO22"
    name = "gpu-process-count"
    summary = "a launcher starts a fixed number of GPU processes"
    words = ("nproc", "multi_gpu", "multi-gpu", "num_processes", "num_gpus", "--include")
    magics = "shell"
    examples = (
        Example("torchrun", "torchrun --standalone --nproc_per_node=8 train.py\n", None, "run.sh"),
        Example("the old launcher", "python -m torch.distributed.launch --nproc_per_node 4 train.py\n", None, "run.sh"),
        Example("one per GPU", "torchrun --nproc-per-node=gpu train.py\n", None, "run.sh"),
        Example("accelerate", "accelerate launch --multi_gpu --num_processes 2 train.py\n", None, "run.sh"),
        Example("deepspeed", "deepspeed --num_gpus=8 train.py\n", None, "run.sh"),
    )
    leaves = (
        Leave(
            "torchrun --nproc_per_node=1 train.py\ntorchrun --nproc_per_node=auto x.py\n",
            "one, or as many as there are",
            "run.sh",
        ),
        Leave('torchrun --nproc_per_node="$NPROC" train.py\n', "can be chosen", "run.sh"),
        Leave("# torchrun --nproc_per_node=8 train.py\n", "a comment", "run.sh"),
    )
    patterns = (
        (
            re.compile(rb"(?P<at>--?nproc[_\-]per[_\-]node[= ](?:[2-9]|[1-9]\d+|gpu)\b)"),
            'wants that many GPUs; decide how many processes other machines run: usual: `--nproc_per_node="${NPROC:-1}"`, or `auto`, '
            "which also counts where there is no GPU",
        ),
        (
            re.compile(rb"(?P<at>\baccelerate[ \t]+launch\b(?:\\\r?\n|[^\n;&|])*?--multi[_\-]gpu\b)"),
            "wants several GPUs; decide how others run this: usual: leave `--multi_gpu` out, `accelerate launch` asks the machine",
        ),
        (
            re.compile(rb"(?P<at>\bdeepspeed\b(?:\\\r?\n|[^\n;&|])*?--(?:num_gpus|include)[= ]\S+)"),
            "wants certain GPUs; decide how others run this: usual: leave the option out, DeepSpeed then takes what there is",
        ),
    )


class CudaToolInScript(ScriptRule):
    """A script calls a tool of the CUDA driver or toolkit, or loads or names its folder.

    Instead: call it where it exists (`command -v nvidia-smi && nvidia-smi`); build CUDA sources only where `nvcc` is found.
    """

    code = "ADO23"
    name = "cuda-tool-in-script"
    summary = "a script calls a tool that only CUDA machines have"
    files = (*SCRIPTS, *DOCKERFILES)
    words = (
        "nvidia-smi",
        "nvcc",
        "module",
        "CUDA_HOME",
        "CUDA_PATH",
        "nsys",
        "ncu",
        "nvprof",
        "compute-sanitizer",
        "cuda-memcheck",
        "/cuda",
    )
    magics = "shell"
    examples = (
        Example("the driver's tool", "nvidia-smi\npython train.py\n", None, "run.sh"),
        Example("the compiler", "nvcc -c -o nms.cu.o nms.cu -x cu -arch=sm_52\n", None, "make.sh"),
        Example("a module", "module load cuda/11.8 cudnn\n", None, "job.slurm"),
        Example("a folder", "export CUDA_HOME=/usr/local/cuda-11.8\n", None, "env.sh"),
        Example("a profiler", "nsys profile python train.py\n", None, "prof.sh"),
    )
    leaves = (
        Leave("if command -v nvidia-smi >/dev/null; then ls; fi\nnvidia-smi || true\n", "guarded", "run.sh"),
        Leave("# nvidia-smi\necho nvcc\nmodule load python\n", "prose and others", "run.sh"),
        Leave('export PATH="$CUDA_HOME/bin:$PATH"\n', "only read", "run.sh"),
    )
    unless = re.compile(rb"command -v|\bwhich\b|\bhash\b|\btype\b|\|\||\bif\b|\[ -[xfed] ")
    patterns = (
        (
            re.compile(rb"(?m)(?:^|[;&|(!@%`\s])(?P<at>nvidia-smi)(?![\w.\-/=])"),
            "exists on NVIDIA machines only; decide what the script needs it for: usual: `command -v nvidia-smi >/dev/null && nvidia-smi`",
        ),
        (
            re.compile(rb"(?m)(?:^|[;&|(!@`\s]|\$\(|/bin/)(?P<at>nvcc)(?=[ \t\\\n])"),
            "is the CUDA compiler; decide what is built without it: usual: build the kernels only where `command -v nvcc` finds it, and "
            "let the program use its PyTorch operators elsewhere",
        ),
        (
            re.compile(rb"(?P<at>\bmodule[ \t]+(?:load|add)\b[^\n;&|]*?\b(?:cuda|cudnn|nccl|nvhpc)[\w./\-]*)", re.I),
            "exists on clusters with CUDA only; decide what other machines load: usual: move it to a file of the cluster's own",
        ),
        (
            re.compile(
                rb"(?P<at>(?<![\w$])(?:CUDA_HOME|CUDA_PATH|CUDA_ROOT|CUDNN_PATH)[ \t]*:?=[ \t]*[\"']?/[\w/.\-]+)"
            ),
            "is a folder of one machine with CUDA; usual: set it only where it is not set and the folder exists "
            '(`[ -d /usr/local/cuda ] && export CUDA_HOME="${CUDA_HOME:-/usr/local/cuda}"`)',
        ),
        (
            re.compile(rb"(?m)(?:^|[;&|(!@\s])(?P<at>nsys|ncu|nvprof|compute-sanitizer|cuda-memcheck)(?=[ \t])"),
            "profiles CUDA only; decide what is measured elsewhere: usual: `torch.profiler`, which knows every accelerator",
        ),
    )


class GpuSchedulerRequest(ScriptRule):
    """A batch job asks the scheduler for GPUs, and waits for ever on a cluster that has none of that kind.

    Instead: give the request when the job is submitted (`sbatch --gres=gpu:1 job.sh`), not in the file.

    References: https://slurm.schedmd.com/gres.html
    """

    code = "ADO24"
    name = "gpu-scheduler-request"
    summary = "a batch job asks for GPUs"
    words = ("#SBATCH", "#PBS", "#BSUB", "#$", "--gres", "--gpus", "srun", "sbatch")
    examples = (
        Example("slurm", "#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH --time=1:00\npython x.py\n", None, "job.sh"),
        Example("slurm's short form", "#SBATCH -G 2\n", None, "job.slurm"),
        Example("pbs", "#PBS -l select=1:ncpus=4:ngpus=1\n", None, "job.pbs"),
        Example("lsf", '#BSUB -gpu "num=1"\n', None, "job.sh"),
        Example("a command", "srun --gres=gpu:8 --ntasks=8 python train.py\n", None, "run.sh"),
    )
    leaves = (
        Leave("#SBATCH --time=1:00\n#SBATCH --job-name=gpu\n", "no request", "job.sh"),
        Leave("# srun --gres=gpu:1\n##SBATCH --gres=gpu:1\n", "comments", "job.sh"),
    )
    patterns = (
        (
            re.compile(
                rb"(?m)^[ \t]*(?P<at>#(?:SBATCH[ \t]+(?:--gres=[\"']?gpu|--gpus|-G[ \t]|--gpu-bind|--constraint=[\"']?gpu|--(?:partition|qos)=\w*gpu|-p[ \t]+\w*gpu)"
                rb"|PBS[ \t]+-l[ \t]\S*gpus?=|PBS[ \t]+-q[ \t]+\w*gpu|BSUB[ \t]+-gpu|BSUB[ \t]+-R[^\n]*ngpus|\$[ \t]+-l[ \t]+\w*gpu)[^\n#]*)"
            ),
            "asks the scheduler for GPUs; decide where else the job is to run: usual: take it out of the file and give it when the job is "
            "submitted",
        ),
        (
            re.compile(
                rb"(?P<at>\b(?:srun|sbatch|salloc)\b(?:\\\r?\n|[^\n;&|])*?(?:--gres[= ][\"']?gpu[:\w]*|--gpus[\w\-]*[= ]\S+))"
            ),
            "asks the scheduler for GPUs; decide where else this is to run: usual: the request in a variable (`srun $GPU_REQUEST …`)",
        ),
    )


class ContainerGpuOption(ScriptRule):
    """`docker run --gpus all` fails on a machine without NVIDIA's container runtime.

    Instead: add the option only where `nvidia-smi` is found; for ROCm and Intel GPUs it is `--device /dev/kfd --device /dev/dri`.

    References: https://docs.docker.com/engine/containers/gpu/
    """

    code = "ADO25"
    name = "container-gpu-option"
    summary = "a container is started with NVIDIA GPUs"
    files = (*SCRIPTS, "devcontainer.json", ".devcontainer.json")
    words = ("docker", "podman", "singularity", "apptainer", "--gpus", "nvidia")
    magics = "shell"
    examples = (
        Example("all GPUs", "docker run --gpus all --rm image python train.py\n", None, "run.sh"),
        Example("the old runtime", "docker run --runtime=nvidia image\n", None, "run.sh"),
        Example("the old command", "nvidia-docker run image\n", None, "run.sh"),
        Example("singularity", "singularity exec --nv image.sif python x.py\n", None, "run.sh"),
        Example("a development container", '{\n  "runArgs": ["--gpus", "all"]\n}\n', None, "devcontainer.json"),
    )
    leaves = (
        Leave("docker run --rm image\n# docker run --gpus all image\n", "no GPU", "run.sh"),
        Leave("docker run $GPU_OPTIONS image\n", "can be chosen", "run.sh"),
    )
    patterns = (
        (
            re.compile(
                rb"(?P<at>\b(?:docker|podman)\b(?:\\\r?\n|[^\n;&|])*?[ \t](?:--gpus[= ]\S+|--runtime[= ]nvidia|--device[= ]nvidia\.com/gpu\S*))"
            ),
            "fails without NVIDIA's container runtime; decide how others start it: usual: options in a variable that is set only where "
            "`nvidia-smi` is found (`docker run $GPU_OPTIONS …`)",
        ),
        (
            re.compile(rb"(?P<at>\bnvidia-docker2?[ \t]+(?:run|exec|build|create)\b)"),
            "is the runtime of NVIDIA machines; usual: `docker run`, with `--gpus all` only where `nvidia-smi` is found",
        ),
        (
            re.compile(rb"(?P<at>\b(?:singularity|apptainer)\b(?:\\\r?\n|[^\n;&|])*?[ \t]--nv\b)"),
            "brings in NVIDIA's driver; usual: the option in a variable, `--nv` for CUDA, `--rocm` for AMD, none elsewhere",
        ),
        (
            re.compile(rb"(?P<at>\"--gpus(?:=\w+)?\"(?:[ \t]*,[ \t]*\"\w+\")?)"),
            'fails without NVIDIA\'s container runtime; usual: `"hostRequirements": {"gpu": "optional"}` in its place',
        ),
    )
