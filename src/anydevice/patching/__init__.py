"""Changing PyTorch for a while and putting it back, and whose line it is that asks: what `sim` and `redirect` share."""
