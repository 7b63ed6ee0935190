"""Tensors and layers that `module.to(device)` does not know of, and second names that keep what it replaces."""

from __future__ import annotations

PROGRAMS = {
    "positional table": """
class Pos(nn.Module):
    def __init__(self, n=10, d=4):
        super().__init__()
        pe = torch.zeros(n, d)
        t = torch.arange(n).unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2) * 0.1)
        pe[:, 0::2] = torch.sin(t * div)
        pe[:, 1::2] = torch.cos(t * div)
        # expect: tensor-attribute-not-buffer
        self.pe = pe.unsqueeze(0)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]
""",
    "mean and std": """
class Norm(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        # expect: tensor-attribute-not-buffer
        self.std = torch.as_tensor([0.2, 0.3, 0.1]).view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

n = Norm([0.4, 0.5, 0.6], None).to(device)
print(n(torch.rand(3, 2, 2, device=device)))
""",
    "buffer in a dict": """
class Alias(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("basis", torch.eye(3))
        self.rows = list(self.basis)
        # expect: stale-tensor-alias
        self.lookup = {"basis": self.basis}

    def forward(self, x):
        return x @ self.lookup["basis"]
""",
    "window of a transform": """
class Spec(nn.Module):
    def __init__(self, n=8):
        super().__init__()
        # expect: tensor-attribute-not-buffer
        self.window = torch.hann_window(n)
        self.n = n

    def forward(self, wave):
        return torch.stft(wave, self.n, window=self.window, return_complex=True).abs()
""",
    "heads in a dict": """
class Multi(nn.Module):
    def __init__(self, names=("a", "b")):
        super().__init__()
        self.trunk = nn.Linear(3, 4)
        # expect: modules-in-plain-container
        self.heads = {name: nn.Linear(4, 1) for name in names}

    def forward(self, x):
        z = self.trunk(x)
        return {k: head(z) for k, head in self.heads.items()}
""",
    "clones of a layer": """
import copy
class Clones(nn.Module):
    def __init__(self, layer, n):
        super().__init__()
        # expect: modules-in-plain-container
        self.layers = [copy.deepcopy(layer) for _ in range(n)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
""",
    "tuple of stages": """
def block(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.ReLU())

class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        # expect: modules-in-plain-container
        self.stages = (block(1, 2), block(2, 3))

    def forward(self, x):
        for s in self.stages:
            x = s(x)
        return x
""",
    "list made before the move": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

w = torch.ones(3)
# expect: stale-tensor-alias
params = [w]
w = w.to(device)
print(w * params[0])
""",
    "loop that changes nothing": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

batch = {"x": torch.ones(2, 3), "y": torch.zeros(2)}
for k, v in batch.items():
    # expect: stale-tensor-alias
    v = v.to(device)
net = nn.Linear(3, 1).to(device)
print(net(batch["x"]))
""",
    "views of a buffer": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        scale = torch.ones(4)
        self.register_buffer("scale", scale)
        # expect: stale-tensor-alias
        self.cache = [scale[:2], scale[2:]]

    def forward(self, x):
        a, b = self.cache
        return x * torch.cat([a, b])
""",
    "running mean taken early": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

net = nn.BatchNorm1d(3)
# expect: stale-tensor-alias
mean = net.running_mean
net.to(device)
print(mean - torch.ones(3, device=device))
""",
}
