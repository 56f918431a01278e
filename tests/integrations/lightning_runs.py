"""Lightning modules and private trainings that several test files use."""

import lightning
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from dpsgd_explorer.integrations.lightning import DPCallback

WIDTH, CLASSES = 4, 3


class Classifier(lightning.LightningModule):
    """Calls a submodule, as most modules do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(WIDTH, 5), nn.Tanh(), nn.Linear(5, CLASSES)
        )
        self.sizes, self.learning_rates = [], []

    def loss(self, batch):
        inputs, targets = batch
        self.sizes.append(len(inputs))
        return cross_entropy(self.model(inputs), targets)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", cross_entropy(self.model(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1.0)


class WithForward(Classifier):
    """Is called as a whole."""

    def forward(self, inputs):
        return self.model(inputs * 1.0)

    def loss(self, batch):
        self.sizes.append(len(batch[0]))
        return cross_entropy(self(batch[0]), batch[1])


class Manual(Classifier):
    """Calls backward and step itself, over two parts of a batch."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        for inputs, targets in zip(*(part.chunk(2) for part in batch), strict=True):
            self.manual_backward(cross_entropy(self.model(inputs), targets))
        optimizer.step()
        optimizer.zero_grad()


class TwoOptimizers(Manual):
    """Each layer has an optimizer; the step of a batch is private once."""

    def training_step(self, batch, batch_idx):
        self.manual_backward(self.loss(batch))
        for optimizer in self.optimizers():
            optimizer.step()
            optimizer.zero_grad()

    def configure_optimizers(self):
        return [torch.optim.SGD(self.model[i].parameters(), lr=1.0) for i in (0, 2)]


def records(count=20):
    torch.manual_seed(1)
    return TensorDataset(
        torch.randn(count, WIDTH), torch.randint(CLASSES, (count,)).long()
    )


def loader(count=20, batch_size=4, **options):
    return DataLoader(records(count), batch_size=batch_size, **options)


def trainer_of(folder, callback, *more, **options):
    given = {
        "max_epochs": 1,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
    }
    return lightning.Trainer(callbacks=[callback, *more], **given | options)


#: Draws that are equal in every test run.  Lightning divides a loss by a number, and
#: three steps of five records do not show that this number is public.
SEEDED = {"noise": "seeded", "seed": 0}
#: Draws that differ, in short trainings that need no evidence on their loss.
SECURE = {"noise": "secure", "seed": None, "assume_per_sample_loss": True}


def fitted(folder, module, data=None, privacy=None, ckpt_path=None, **options):
    callback = DPCallback(**{"noise_multiplier": 1.0} | SEEDED | (privacy or {}))
    more = options.pop("callbacks", [])
    trainer = trainer_of(folder, callback, *more, **options)
    trainer.fit(module, loader() if data is None else data, ckpt_path=ckpt_path)
    return callback, trainer
