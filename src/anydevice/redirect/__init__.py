"""`anydevice run`: programs written for CUDA, sent to the device that is there, with PyTorch's Python API patched once."""
