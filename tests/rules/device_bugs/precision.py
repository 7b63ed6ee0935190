"""Double precision taken to devices that may lack it."""

from __future__ import annotations

PROGRAMS = {
    "double factory then moved": """
import numpy as np
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

freqs = torch.linspace(0, 1, 8, dtype=torch.float64)
# expect: float64-before-move
freqs = freqs.to(device)
print(freqs.float())
""",
    "double array made there": """
import numpy as np
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

sig = np.array([0.1, 0.2, 0.4])
# expect: float64-before-move
t = torch.tensor(sig, device=device)
""",
    "double array cast after": """
import numpy as np
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

state = np.zeros(4)
# expect: float64-before-move
x = torch.as_tensor(state).to(device).float()
""",
    "double array in a function": """
import numpy as np
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def steps(n):
    grid = np.linspace(0, 999, n)[::-1].copy()
    # expect: float64-before-move
    return torch.from_numpy(grid).to(device)
""",
    "cast to double there": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# expect: float64-before-move
x = torch.arange(4, device=device).double()
""",
}
