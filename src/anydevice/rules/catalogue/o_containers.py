"""Group O, fifth part: images built on CUDA, and services that reserve NVIDIA GPUs."""

from __future__ import annotations

import re

from anydevice.rules.rule import Example, Leave
from anydevice.rules.script import DOCKERFILES, ScriptRule

_IMAGE = (
    rb"(?:docker\.io/)?(?:nvidia/cuda|nvcr\.io/nvidia/[\w.\-/]+|(?:ghcr\.io/)?pytorch/pytorch[\w.\-]*|(?:[\w.\-]+/)+[\w.\-]*(?:cuda|gpu)[\w.\-]*"
    rb"|(?:[\w.\-]+/)*[\w.\-]+(?=:[\w.\-]*(?:cuda|cu1\d\d|gpu)))(?:[:@][\w.\-:${}]+)?"
)


class CudaBaseImage(ScriptRule):
    """An image is built on CUDA libraries of several gigabytes, which only machines with NVIDIA GPUs use.

    Instead: the base in a build argument, so that one file builds both: `ARG BASE=nvidia/cuda:12.4.1-runtime-ubuntu22.04`,
    `FROM ${BASE}`, and `docker build --build-arg BASE=ubuntu:22.04 .` for machines without.

    References: https://docs.docker.com/reference/dockerfile/#understand-how-arg-and-from-interact
    """

    code = "ADO30"
    name = "cuda-base-image"
    summary = "an image is built on CUDA"
    files = DOCKERFILES
    words = ("cuda", "nvidia", "pytorch/pytorch", "gpu", "cu1")
    examples = (
        Example("CUDA", "FROM nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04\nRUN ls\n", None, "Dockerfile"),
        Example("PyTorch", "FROM pytorch/pytorch:2.1.0-cuda11.8-cudnn8-runtime AS base\n", None, "Dockerfile"),
        Example("NGC", "from nvcr.io/nvidia/pytorch:23.10-py3\n", None, "docker.Dockerfile"),
    )
    leaves = (
        Leave("# FROM nvidia/cuda:11.8.0\nFROM python:3.11-slim\n", "a comment", "Dockerfile"),
        Leave("ARG BASE=nvidia/cuda:12.4.1-runtime-ubuntu22.04\nFROM ${BASE}\n", "can be chosen", "Dockerfile"),
        Leave("FROM tensorflow/tensorflow:2.4.0-gpu\n", "not torch", "Dockerfile"),
        Leave("FROM python:3.11 AS cuda\nFROM cuda\n", "a stage", "Dockerfile"),
    )
    unless = re.compile(rb"tensorflow|jax|paddle")
    patterns = (
        (
            re.compile(rb"(?mi)^[ \t]*FROM[ \t]+(?:--platform=\S+[ \t]+)?(?P<at>" + _IMAGE + rb")"),
            "brings CUDA to every machine; decide what those without are built on: usual: the base in a build argument "
            "(`ARG BASE=…`, `FROM ${BASE}`), and `--build-arg BASE=python:3.11-slim` for them",
        ),
    )


class CudaImageEnvironment(ScriptRule):
    """An image or script sets what only builds and containers with CUDA read.

    Instead: keep it in the variant for CUDA; `FORCE_CUDA=1` and an architecture list break builds where `nvcc` is missing.

    References: https://docs.pytorch.org/docs/stable/cpp_extension.html
    """

    code = "ADO31"
    name = "cuda-build-environment"
    summary = "variables of CUDA builds or containers are set"
    files = (*DOCKERFILES, "*.sh", "*.bash", "[Mm]akefile")
    words = (
        "TORCH_CUDA_ARCH_LIST",
        "FORCE_CUDA",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "CUDA_HOME",
        "USE_CUDA",
    )
    examples = (
        Example("architectures", 'ENV TORCH_CUDA_ARCH_LIST="6.0 7.0 8.0+PTX"\n', None, "Dockerfile"),
        Example("forced", "FORCE_CUDA=1 pip install -e .\n", None, "build.sh"),
        Example("the folder", "ENV CUDA_HOME /usr/local/cuda\n", None, "Dockerfile"),
        Example("the runtime", "ENV NVIDIA_VISIBLE_DEVICES all\n", None, "Dockerfile"),
    )
    leaves = (
        Leave("# ENV CUDA_HOME /usr/local/cuda\nENV PATH /usr/bin\n", "a comment", "Dockerfile"),
        Leave('echo "$TORCH_CUDA_ARCH_LIST"\nls "$CUDA_HOME"\n', "only read", "build.sh"),
    )
    patterns = (
        (
            re.compile(
                rb"(?P<at>(?<![\w${])(?:TORCH_CUDA_ARCH_LIST|FORCE_CUDA|USE_CUDA)(?:=|[ \t]+)(?:\"[^\"\n]*\"|'[^'\n]*'|[\w.;+]+))"
            ),
            "makes extensions be built for CUDA; decide what is built without it: usual: only in the image or branch for CUDA machines",
        ),
        (
            re.compile(rb"(?m)(?P<at>^[ \t]*ENV[ \t]+(?:CUDA_HOME|CUDA_PATH)(?:=|[ \t]+)\S+)"),
            "names a folder that images without CUDA do not have; usual: only in the image for CUDA machines",
        ),
        (
            re.compile(rb"(?P<at>(?<![\w${])NVIDIA_(?:VISIBLE_DEVICES|DRIVER_CAPABILITIES)(?:=|[ \t]+)[\w,\-]+)"),
            "is read by NVIDIA's container runtime alone and harmless elsewhere; usual: only in the image for CUDA machines",
        ),
    )


class GpuReservation(ScriptRule):
    """A service reserves NVIDIA GPUs, and is not started where there are none.

    Instead: keep the reservation in a second file that is added on machines with CUDA
    (`docker compose -f compose.yaml -f compose.cuda.yaml up`; an overlay for Kubernetes).

    References: https://docs.docker.com/compose/how-tos/gpu-support/
    """

    code = "ADO32"
    name = "gpu-reservation"
    summary = "a service reserves NVIDIA GPUs"
    files = ("*.yml", "*.yaml")
    words = ("nvidia", "capabilities", "gpus:", "CUDA_VISIBLE_DEVICES", "NVIDIA_")
    examples = (
        Example("the old runtime", "services:\n  train:\n    runtime: nvidia\n", None, "docker-compose.yml"),
        Example(
            "a reservation",
            "services:\n  a:\n    deploy:\n      resources:\n        reservations:\n          devices:\n            - driver: nvidia\n"
            "              capabilities: [gpu]\n",
            None,
            "compose.yaml",
        ),
        Example("kubernetes", "resources:\n  limits:\n    nvidia.com/gpu: 1\n", None, "job.yaml"),
        Example("an environment", "environment:\n  - CUDA_VISIBLE_DEVICES=0\n", None, "docker-compose.yml"),
    )
    leaves = (
        Leave("services:\n  a:\n    # runtime: nvidia\n    image: x\n", "a comment", "docker-compose.yml"),
        Leave("resources:\n  limits:\n    memory: 1Gi\n", "no GPU", "job.yaml"),
    )
    patterns = (
        (
            re.compile(
                rb"(?m)^[ \t]*(?:-[ \t]+)?(?P<at>runtime:[ \t]*[\"']?nvidia[\"']?|driver:[ \t]*[\"']?nvidia[\"']?|runtimeClassName:[ \t]*nvidia|gpus:[ \t]*all"
                rb"|[\"']?(?:nvidia|amd)\.com/gpu[\w.\-]*[\"']?:[ \t]*[\"']?\d+[\"']?)"
            ),
            "keeps the service from starting without NVIDIA GPUs; decide how others run it: usual: move it to a second file that is added "
            "on machines with CUDA (`-f compose.yaml -f compose.cuda.yaml`, or an overlay)",
        ),
        (
            re.compile(
                rb"(?m)^[ \t]*(?:-[ \t]+)?(?P<at>[\"']?(?:CUDA|NVIDIA)_VISIBLE_DEVICES[\"']?(?:=|:[ \t]+)[\"']?[\w,]+[\"']?)"
            ),
            "chooses among NVIDIA GPUs and does nothing elsewhere; usual: keep it in the file for machines with CUDA",
        ),
    )
