"""Sourced facts about PyTorch releases, CUDA drivers and compiled GPU architectures, as data with their dates."""
