"""`torch.Tensor` and the functions that make tensors, as they answer in a simulated world. One file per subject."""
