"""The modules of the back ends, `torch.cuda` and its like, as they answer in a simulated world."""
