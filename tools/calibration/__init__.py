"""What a real accelerator answers to mixed devices, and what the simulator does, for `calibrate.py`.

Each module of cases has `names(count)` for a machine with that many devices, and `answers(name, device)`: what came of
each case of that name, as text.
"""
