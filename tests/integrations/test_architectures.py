"""Models of Hugging Face: clipped sums equal those of a loop over the samples."""

import pytest

from tests.integrations.architectures import WAYS, cell
from tools.write_hugging_face_page import PAGE

#: Text, images and sound, decoders and encoders, modules that run alone.
CASES = [
    ("Llama", "LoRA"),
    ("BERT", "full"),
    ("T5", "full"),
    ("ViT", "biases"),
    ("Whisper encoder", "LoRA"),
    ("Mixtral", "LoRA"),
]


@pytest.mark.filterwarnings("ignore")  # of transformers and peft
@pytest.mark.long("every combination")
@pytest.mark.parametrize(("name", "way"), CASES)
def test_the_engine_of_the_page_is_exact(name, way):
    (row,) = [x for x in PAGE.read_text().splitlines() if x.startswith(f"| {name} |")]
    cells = [text.strip() for text in row.strip("|").split("|")[1:]]
    assert cells[WAYS.index(way)] == cell(name, way)
