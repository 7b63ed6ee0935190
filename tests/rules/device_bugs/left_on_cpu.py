"""Batches and models that are never moved, and moves that are thrown away."""

from __future__ import annotations

PROGRAMS = {
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
