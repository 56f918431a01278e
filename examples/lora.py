"""Private fine-tuning with LoRA: adapters of peft in a transformer of transformers.

    pip install peft transformers
    python -m examples.lora

Builds a small Llama without a download, and pre-trains it without privacy on public
text: the names in the list of first names of the US census of 1990.  Then freezes its
weights, and trains LoRA adapters and a head with DP-SGD until ε = 3 is spent, on 40,000
private persons: does a first name belong to a woman or a man?  Prints the accuracy on
8,000 other persons, ε, and the number of trained parameters.  Takes about a minute on
two cores.  Guessing is right in 50% of the cases.

Source: Hu et al. (2021), arXiv:2106.09685, for LoRA; Yu et al. (2021),
arXiv:2110.06500, for private fine-tuning with it.
"""

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification

from dpsgd_explorer import accounting
from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.training.datasets import names
from dpsgd_explorer.training.datasets.registry import load

CONFIG = LlamaConfig(
    vocab_size=27,  # a blank and A to Z
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=names.LENGTH,
    pad_token_id=0,
    num_labels=2,
)


def public_names() -> Tensor:
    """Returns each name of the published lists once, as letters (N, 11)."""
    lists = [names.frequencies(file.read().decode()) for file in names.FILES]
    return torch.tensor([names.encode(name) for name in sorted(set().union(*lists))])


def pretrain(texts: Tensor, steps: int) -> LlamaForCausalLM:
    """Returns a model that predicts the next letter, trained without privacy."""
    model = LlamaForCausalLM(CONFIG)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        batch = texts[torch.randint(len(texts), (128,))]
        model(batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def classifier(pretrained: LlamaForCausalLM) -> nn.Module:
    """Returns the pre-trained model with LoRA adapters and a new head."""
    model = LlamaForSequenceClassification(CONFIG)
    model.model.load_state_dict(pretrained.model.state_dict())
    adapters = LoraConfig(
        task_type=TaskType.SEQ_CLS,  # the head is trained too
        r=8,
        lora_alpha=16,
        target_modules=["q_proj", "v_proj", "up_proj", "down_proj"],
    )
    return get_peft_model(model, adapters)


def main(epochs: int = 3, target_epsilon: float = 3.0) -> None:
    """Pre-trains, fine-tunes with DP-SGD, and prints accuracy and ε."""
    torch.manual_seed(0)
    model = classifier(pretrain(public_names(), steps=200))
    train, test = load("names")
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.01)
    engine = PrivacyEngine(
        model,
        batch_size=512,
        sample_size=len(train),
        epochs=epochs,
        target_epsilon=target_epsilon,
        target_delta=1e-5,
    )
    engine.attach(optimizer)
    loader = engine.poisson_loader((train.inputs, train.targets))
    for letters, labels in loader.all_epochs():
        cross_entropy(model(letters).logits, labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        answers = model(test.inputs).logits.argmax(1)
    accuracy = (answers == test.targets).float().mean()
    epsilon = accounting.round_up(engine.get_epsilon())
    parameters = sum(p.numel() for p in trained)
    print(
        f"accuracy {accuracy:.1%} at ε = {epsilon}, δ = 1e-5, "
        f"with {parameters:,} trained parameters"
    )


if __name__ == "__main__":
    main()
