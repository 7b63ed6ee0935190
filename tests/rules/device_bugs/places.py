"""Lookups in tables on the CPU, numbers of devices, and devices that were asked for in vain."""

from __future__ import annotations

PROGRAMS = {
    "palette": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

palette = torch.randint(0, 255, (21, 3))
net = nn.Conv2d(3, 21, 1).to(device)
labels = net(torch.rand(1, 3, 4, 4).to(device)).argmax(1)
# expect: index-device-mismatch
print(palette[labels].shape)
""",
    "boxes kept by a mask": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

boxes = torch.rand(10, 4)
scores = torch.rand(10).to(device)
keep = scores > 0.5
# expect: index-device-mismatch
print(boxes[keep])
""",
    "schedule gathered by steps": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def extract(a, t, shape):
    # expect: index-device-mismatch
    out = a.gather(-1, t)
    return out.reshape(t.shape[0], *((1,) * (len(shape) - 1)))

class Diffusion:
    def __init__(self, n=10):
        self.alphas = torch.linspace(1, 0, n)

    def q_sample(self, x, t):
        return extract(self.alphas, t, x.shape) * x

x = torch.zeros(2, 3, device=device)
t = torch.randint(0, 10, (2,), device=device)
print(Diffusion().q_sample(x, t))
""",
    "bank looked up by an order": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

bank = torch.randn(100, 8)
q = torch.randn(3, 8, device=device)
order = (q @ torch.randn(8, 100, device=device)).argsort(1)
# expect: index-device-mismatch
print(bank[order[:, 0]])
""",
    "number given to to": """
def pad(x):
    # expect: get-device-as-device
    extra = torch.zeros(x.size(0), 2).to(x.get_device())
    return torch.cat([x, extra], 1)
""",
    "number compared and used": """
def noise_like(x):
    # expect: get-device-as-device
    gpu = x.get_device()
    if gpu == -1:
        return torch.randn(x.shape)
    return torch.randn(x.shape, device=gpu)
""",
    "number given to cuda": """
def eye(x):
    # expect: get-device-as-device
    return torch.eye(x.shape[0]).cuda(x.get_device())
""",
    "flag overridden": """
import argparse

p = argparse.ArgumentParser()
p.add_argument("--device", default="cpu")
args = p.parse_args([])
device = args.device
if torch.cuda.is_available():
    # expect: explicit-device-overridden
    device = "cuda"
net = nn.Linear(2, 2).to(device)
""",
    "argument overridden": """
def resolve(device):
    if not torch.cuda.is_available():
        # expect: explicit-device-overridden
        device = "cpu"
    return torch.device(device)
""",
    "wish heard by cuda only": """
class Runner:
    def __init__(self, net, device):
        # expect: explicit-device-overridden
        self.device = torch.device(device if torch.cuda.is_available() else "cpu")
        self.net = net.to(self.device)
""",
    "default never read": """
def load(path, device="cpu"):
    # expect: explicit-device-overridden
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.load(path, map_location=device)
""",
    "cuda whatever was asked": """
def pick(name=None):
    if torch.cuda.is_available():
        # expect: explicit-device-overridden
        return torch.device("cuda")
    return torch.device(name or "cpu")
""",
}
