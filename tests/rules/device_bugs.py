"""Programs with the device bugs that people report. `# expect:` says what is to be found in the next line."""

from __future__ import annotations

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"

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
    "loader": """
from torch.utils.data import DataLoader, TensorDataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

net = nn.Linear(3, 2).to(device)
data = TensorDataset(torch.randn(8, 3), torch.zeros(8, dtype=torch.long))
for x, y in DataLoader(data, batch_size=4):
    # expect: batch-not-moved
    out = net(x)
    print(F.cross_entropy(out, y))
""",
    "list of batches handed to a function": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

net = nn.Linear(3, 2)
net.to(device)

def evaluate(model, batches):
    model.eval()
    for x in batches:
        # expect: batch-not-moved
        print(model(x))

evaluate(net, [torch.randn(4, 3) for _ in range(2)])
""",
    "single sample": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

net = nn.Linear(3, 2).to(device)
sample = torch.rand(1, 3)
with torch.no_grad():
    # expect: batch-not-moved
    print(net(sample).argmax())
""",
    "trainer": """
from torch.utils.data import DataLoader, TensorDataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class Trainer:
    def __init__(self, model, loader):
        self.model = model.to(device)
        self.loader = loader

    def run(self):
        for x, y in self.loader:
            # expect: batch-not-moved
            pred = self.model(x)
            print(F.mse_loss(pred, y))

loader = DataLoader(TensorDataset(torch.zeros(4, 2), torch.zeros(4, 1)))
Trainer(nn.Linear(2, 1), loader).run()
""",
    "move thrown away": """
from torch.utils.data import DataLoader, TensorDataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

net = nn.Linear(3, 2).to(device)
loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.zeros(8, dtype=torch.long)))
for x, y in loader:
    x.to(device)
    y.to(device)
    # expect: batch-not-moved
    loss = F.cross_entropy(net(x), y)
""",
    "optimizer resumed before the move": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def setup():
    model = nn.Linear(2, 1)
    # expect: optimizer-before-move
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    opt.load_state_dict(torch.load("o.pt", map_location="cpu"))
    model = model.to(device)
    return model, opt
""",
    "target network": """
import copy
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

net = nn.Linear(2, 1)
# expect: copy-left-behind
target = copy.deepcopy(net).eval()
net.to(device)
x = torch.ones(1, 2, device=device)
print(net(x) - target(x))
""",
    "average in a comprehension": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class EMA:
    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.shadow = {k: p.detach().clone() for k, p in model.named_parameters()}

    def update(self, model):
        for k, p in model.named_parameters():
            self.shadow[k].mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)

net = nn.Linear(2, 1)
# expect: copy-left-behind
ema = EMA(net)
net.to(device)
ema.update(net)
""",
    "average in a loop": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class EMA:
    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.shadow = {}
        for k, p in model.named_parameters():
            self.shadow[k] = p.data.clone()

    def update(self, model):
        for k, p in model.named_parameters():
            self.shadow[k] = self.decay * self.shadow[k] + (1 - self.decay) * p.data

net = nn.Linear(2, 1)
# expect: copy-left-behind
ema = EMA(net, 0.99)
net = net.to(device)
ema.update(net)
""",
    "target network of an agent": """
import copy
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class Agent:
    def __init__(self):
        self.policy = nn.Linear(2, 1)
        # expect: copy-left-behind
        self.target = copy.deepcopy(self.policy)
        self.policy.to(device)

    def loss(self, x):
        x = x.to(device)
        return (self.policy(x) - self.target(x)).pow(2).mean()
""",
    "copy kept on the cpu": """
import copy
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

net = nn.Linear(2, 1).to(device)
# expect: copy-left-behind
backup = copy.deepcopy(net).cpu()
x = torch.ones(1, 2, device=device)
print(net(x) - backup(x))
""",
    "weights in a training function": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def train(model, loader):
    model.to(device)
    pos = torch.tensor([3.0, 1.0])
    # expect: loss-tensor-not-moved
    crit = nn.BCEWithLogitsLoss(pos_weight=pos)
    for x, y in loader:
        loss = crit(model(x.to(device)), y.to(device))
""",
    "weights of the module": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

weights = torch.tensor([1.0, 2.0])

def step(net, x, y):
    out = net(x.to(device))
    # expect: loss-tensor-not-moved
    return F.cross_entropy(out, y.to(device), weight=weights)

net = nn.Linear(3, 2).to(device)
print(step(net, torch.ones(1, 3), torch.zeros(1, dtype=torch.long)))
""",
    "weights in a loss of ones own": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class Weighted(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        # expect: tensor-attribute-not-buffer
        self.alpha = alpha

    def forward(self, logits, y):
        return (F.cross_entropy(logits, y, reduction="none") * self.alpha[y]).mean()

crit = Weighted(torch.tensor([1.0, 2.0])).to(device)
net = nn.Linear(3, 2).to(device)
print(crit(net(torch.ones(1, 3).to(device)), torch.zeros(1, dtype=torch.long, device=device)))
""",
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
    "script": """
device = "cuda"
# expect: module-not-moved
net = nn.Linear(2, 2)
x = torch.ones(1, 2).to(device)
y = net(x)
""",
    "demo class": """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return self.fc(x)

class Demo:
    def __init__(self):
        # expect: module-not-moved
        self.enc = Encoder()
        self.enc.eval()

    def __call__(self, x):
        x = x.to(device)
        return self.enc(x)

print(Demo()(torch.ones(1, 2)))
""",
}
