"""Reading and editing source text; knows nothing of CUDA."""
