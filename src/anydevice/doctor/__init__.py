"""What is wrong with a PyTorch environment, and exactly how to mend it. Nothing here imports torch."""
