"""A machine without an accelerator, and a PyTorch built for it."""

from anydevice.worlds.world import World

WORLD = World(name="none")
