"""Which process of several this one is, as the launcher says through the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass

# (rank on this machine, processes in all): torchrun, Slurm, Open MPI, MVAPICH, Intel MPI and MPICH (Hydra)
_LAUNCHERS = (
    ("LOCAL_RANK", "WORLD_SIZE"),
    ("SLURM_LOCALID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE"),
    ("MPI_LOCALRANKID", "PMI_SIZE"),
)


@dataclass(frozen=True)
class LocalRank:
    """A process's number among those that one launcher started on this machine, and the variable that says so."""

    number: int
    variable: str


def local_rank() -> LocalRank | None:
    """This process's rank on its machine; None where it was not started as one of several."""
    for variable, size in _LAUNCHERS:
        number, processes = os.environ.get(variable, ""), os.environ.get(size, "")
        if number.isdecimal() and (variable == "LOCAL_RANK" or (processes.isdecimal() and int(processes) > 1)):
            return LocalRank(int(number), variable)
    return None
