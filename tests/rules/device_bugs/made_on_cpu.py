"""Tensors made on the CPU beside others that were moved: in `forward`, in losses and penalties."""

from __future__ import annotations

PROGRAMS = {
    "state of a cell made in forward": """
class RNN(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.cell = nn.GRUCell(3, n)
        self.n = n

    def forward(self, x):
        # expect: factory-without-device
        h = torch.zeros(x.shape[0], self.n)
        for step in x.unbind(1):
            h = self.cell(step, h)
        return h

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

net = RNN().to(device)
print(net(torch.randn(2, 5, 3, device=device)).shape)
""",
    "causal mask made in forward": """
class Attn(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        att = q @ k.transpose(-2, -1)
        # expect: factory-without-device
        mask = torch.triu(torch.ones(x.size(1), x.size(1), dtype=torch.bool), 1)
        att = att.masked_fill(mask, float("-inf"))
        return att.softmax(-1) @ v
""",
    "smoothing made in a loss": """
def dice(pred, target, eps=1e-6):
    # expect: factory-without-device
    smooth = torch.ones(pred.shape[0]) * eps
    inter = (pred * target).flatten(1).sum(1)
    return 1 - ((2 * inter + smooth) / (pred.flatten(1).sum(1) + target.flatten(1).sum(1) + smooth)).mean()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

p = torch.rand(2, 1, 4, 4, device=device)
t = torch.ones_like(p)
print(dice(p, t))
""",
    "mix made in a penalty": """
def penalty(critic, real, fake):
    # expect: factory-without-device
    mix = torch.rand(real.size(0), 1)
    x = mix * real + (1 - mix) * fake
    return critic(x).mean()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

net = nn.Linear(2, 1).to(device)
real = torch.randn(4, 2).to(device)
print(penalty(net, real, real))
""",
    "one-hot made in a loss module": """
class Focal(nn.Module):
    def __init__(self, gamma=2.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, y):
        # expect: factory-without-device
        onehot = torch.zeros(logits.shape).scatter_(1, y[:, None], 1.0)
        p = logits.softmax(-1)
        return -(onehot * (1 - p) ** self.gamma * p.log()).sum()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

loss = Focal()
print(loss(torch.randn(3, 4, device=device), torch.tensor([0, 1, 2], device=device)))
""",
    "grid made in forward": """
class Grid(nn.Module):
    def forward(self, x):
        b, _, h, w = x.shape
        # expect: factory-without-device
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([xs, ys], -1).float().expand(b, -1, -1, -1)
        return F.grid_sample(x, grid)
""",
    "padding made in forward": """
class Cls(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.proj = nn.Linear(d, d)
        self.d = d

    def forward(self, x):
        # expect: factory-without-device
        pad = torch.zeros(x.size(0), 1, self.d)
        return self.proj(torch.cat([pad, x], dim=1))
""",
    "noise made in forward": """
class Noise(nn.Module):
    def __init__(self, std):
        super().__init__()
        self.std = std

    def forward(self, x):
        if not self.training:
            return x
        # expect: factory-without-device
        return x + torch.randn(x.size()) * self.std
""",
    "positions compared with lengths": """
class Masker(nn.Module):
    def forward(self, x, lengths):
        # expect: factory-without-device
        keep = torch.arange(x.size(1))[None] < lengths[:, None]
        return x * keep

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

m = Masker()
x = torch.randn(2, 5, device=device)
n = torch.tensor([3, 5], device=device)
print(m(x, n))
""",
    "state made by a method": """
class Dec(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 4)
        self.out = nn.Linear(4, 10)

    def init_state(self, n):
        # expect: factory-without-device
        return torch.zeros(n, 4)

    def forward(self, ids):
        # expect: factory-without-device
        state = self.init_state(ids.size(0))
        return self.out(self.emb(ids).mean(1) + state)
""",
    "sum accumulated on the cpu": """
class Total(nn.Module):
    def forward(self, x):
        # expect: factory-without-device
        total = torch.zeros(x.shape[1])
        for row in x:
            total += row
        return total
""",
}
