"""Threads, child processes and groups of them in a simulated world. One file per subject."""
