"""Work that is spread over many devices: `torch.cuda.comm`, NCCL, process groups. One file per subject."""
