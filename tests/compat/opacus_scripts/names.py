"""A character LSTM on names of different lengths, with a checkpoint."""

import io

import torch
from opacus import PrivacyEngine
from opacus.layers import DPLSTM
from torch import nn, optim
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

EPOCHS = 2
DELTA = 1e-3

torch.manual_seed(0)
people = [
    (torch.randint(1, 27, (int(length),)), int(length) % 3)
    for length in torch.randint(3, 9, (300,))
]


def padded(batch):
    letters, languages = zip(*batch, strict=True)
    return pad_sequence(list(letters), batch_first=True), torch.tensor(languages)


class CharLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(27, 8)
        self.lstm = DPLSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, letters):
        hidden, _ = self.lstm(self.embedding(letters))
        return self.head(hidden[:, -1])


model = CharLSTM()
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.5)
loader = DataLoader(people, batch_size=50, shuffle=True, collate_fn=padded)

privacy_engine = PrivacyEngine(accountant="rdp", secure_mode=False)
model, optimizer, loader = privacy_engine.make_private(
    module=model,
    optimizer=optimizer,
    data_loader=loader,
    noise_multiplier=1.0,
    max_grad_norm=1.5,
    batch_first=True,
)

epsilons = []
checkpoint = io.BytesIO()
for epoch in range(EPOCHS):
    for letters, languages in loader:
        loss = criterion(model(letters), languages)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    epsilons.append(privacy_engine.get_epsilon(delta=DELTA))
    if epoch == 0:
        privacy_engine.save_checkpoint(
            path=checkpoint,
            module=model,
            optimizer=optimizer,
            checkpoint_dict={"epoch": epoch},
        )

checkpoint.seek(0)
last_weights = model.head.weight.detach().clone()
