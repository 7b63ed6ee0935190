"""What is wrong with a PyTorch environment, and how to mend it. Nothing here imports torch."""
