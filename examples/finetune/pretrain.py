"""Pre-trains the model without privacy on public text, and stores its weights.

    python -m examples.finetune.pretrain

The text is this project's own documentation and chapters.  Takes about 6 minutes on one
core and writes ``pretrained.safetensors``, whose metadata name the text (number of
bytes and SHA-256) and the training.  Equal text and torch give equal weights.
"""

import hashlib
import html
import re
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from dpsgd_explorer.training.datasets.sentences import LENGTH
from dpsgd_explorer.training.language_model import (
    WEIGHTS,
    LanguageModel,
)
from examples.finetune.losses import bits_per_byte, loss_of

ROOT = Path(__file__).parents[2]
SEED, STEPS, BATCH_SIZE, RATE = 0, 2000, 32, 4e-3
HELD_OUT_BYTES = 20_000  # the end of the text, to measure the loss on
MARKUP = re.compile(r"<svg.*?</svg>|<[^>]*>|\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)


def public_text() -> bytes:
    """Returns the pages of docs/ and the chapters without their markup."""
    pages = [p.read_text("utf-8") for p in sorted((ROOT / "docs").rglob("*.md"))]
    for path in sorted((ROOT / "templates" / "learn").glob("[!_]*.html")):
        page = MARKUP.sub("", path.read_text("utf-8"))
        pages.append(re.sub(r"\s*\n\s*", "\n", html.unescape(page)))
    return "\n".join(pages).encode()


def windows_of(text: bytes) -> tuple[Tensor, Tensor]:
    """Returns the windows (N, LENGTH) to train on, and the held-out windows."""
    ids = torch.tensor(list(text))
    train, held_out = ids[:-HELD_OUT_BYTES], ids[-HELD_OUT_BYTES:]
    return train.unfold(0, LENGTH, 1), held_out.unfold(0, LENGTH, LENGTH)


def digest(model: nn.Module) -> str:
    """Returns the SHA-256 of the parameters in half precision, in their order."""
    values = (p.detach().half().numpy().tobytes() for p in model.parameters())
    return hashlib.sha256(b"".join(values)).hexdigest()


def main(steps: int = STEPS) -> None:
    """Trains, prints the progress, and writes the weights."""
    text = public_text()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # other numbers of threads round sums differently
    windows, held_out = windows_of(text)
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=steps, pct_start=0.1
    )
    for step in range(steps):
        batch = windows[torch.randint(len(windows), (BATCH_SIZE,))]
        loss_of(model, batch).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 250 == 249:
            bits = bits_per_byte(model, held_out)
            print(f"step {step + 1}: {bits:.2f} bits per byte", flush=True)
    weights = {name: value.half() for name, value in model.state_dict().items()}
    model.load_state_dict(weights)
    facts = {
        "text": "docs/**/*.md and templates/learn/*.html of this project",
        "text_bytes": str(len(text)),
        "text_sha256": hashlib.sha256(text).hexdigest(),
        "parameters": str(sum(p.numel() for p in model.parameters())),
        "training": f"{steps} steps of {BATCH_SIZE} windows of {LENGTH} bytes, AdamW, "
        f"rate {RATE}, seed {SEED}, torch {torch.__version__}",
        "held_out_bits_per_byte": f"{bits_per_byte(model, held_out):.3f}",
        "weights_sha256": digest(model),
    }
    save_file(weights, WEIGHTS, metadata=facts)
    for name, value in facts.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
