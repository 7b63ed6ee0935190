"""One module for each part of PyTorch's API, each with an `install(patches, redirection)`."""
