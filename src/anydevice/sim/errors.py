"""What the simulator itself refuses. Errors that the simulated machine raises are made where it raises them."""

from __future__ import annotations


class NotSimulated(NotImplementedError):
    """The program asks for something that needs the real hardware, so that any answer would be made up.

    Args:
        what: the name asked for, as the program spells it (`torch.cuda.cudart`).
        instead: what the user can do about it.
    """

    def __init__(self, what: str, instead: str = "run this part on the real device, or leave it out of the simulation"):
        super().__init__(f"anydevice does not simulate {what}; {instead}")
