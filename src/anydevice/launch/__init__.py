"""Running a Python program in this process as `python` would: what `sim` and `run` share."""
