"""Which PyTorch a machine can run, decided from the facts, and the commands and files that bring it there."""
