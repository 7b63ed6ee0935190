"""Optimizers, copies of models and weights of losses that are made before the move."""

from __future__ import annotations

PROGRAMS = {
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
}
