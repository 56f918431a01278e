"""Data sets and models as plain data; loads no torch.

The web layer reads sizes and shapes here; a test compares them with the loaded data
sets and the torch models.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsgd_explorer.experiments.architecture import (
    BYTE_VALUES,
    CHARACTERS,
    DECODER_LENGTH,
    layers_of,
)


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Public facts of a data set.

    Attributes:
        label: Display name.
        train_size: Number of training records, N.
        test_size: Number of test records.
        input_shape: Shape of one record as the loader returns it: numbers, or the
            characters of a text.
        classes: Number of labels.
        class_names: Display name of each label; empty: the labels are numbers.
        characters: Size of the alphabet of text records; 0 if records are numbers.
        majority: Share of the most frequent label in the test set: trivial accuracy.
            The labels of a sentence are its next characters.
        note: One sentence for the page.
    """

    label: str
    train_size: int
    test_size: int
    input_shape: tuple[int, ...]
    classes: int
    majority: float
    note: str
    class_names: tuple[str, ...] = ()
    characters: int = 0

    @property
    def labels(self) -> tuple[str, ...]:
        """Display name of each class."""
        return self.class_names or tuple(str(i) for i in range(self.classes))


@dataclass(frozen=True, kw_only=True)
class Model:
    """Public facts of a model.

    Attributes:
        label: Display name.
        parameters: Trainable parameters by data set; the keys are the data sets that
            the model fits.
        multiply_adds: Multiply-adds of one record's forward pass by data set, the unit
            of a run's cost.
        note: One sentence for the page.
    """

    label: str
    parameters: dict[str, int]
    multiply_adds: dict[str, int]
    note: str

    @property
    def inline_label(self) -> str:
        """The label as written within a sentence."""
        return self.label[:1].lower() + self.label[1:]


DATA_SETS: dict[str, DataSet] = {
    "mnist": DataSet(
        label="MNIST digits",
        train_size=60_000,
        test_size=10_000,
        input_shape=(1, 28, 28),
        classes=10,
        majority=0.1135,
        note="Handwritten digits, 28 by 28 pixels, ten classes.",
    ),
    "fashion_mnist": DataSet(
        label="Fashion-MNIST",
        train_size=60_000,
        test_size=10_000,
        input_shape=(1, 28, 28),
        classes=10,
        class_names=(
            "T-shirt",
            "trousers",
            "pullover",
            "dress",
            "coat",
            "sandal",
            "shirt",
            "sneaker",
            "bag",
            "ankle boot",
        ),
        majority=0.1,
        note="Pictures of clothes, 28 by 28 pixels, ten classes; harder than digits.",
    ),
    "adult": DataSet(
        label="Adult income",
        train_size=32_561,
        test_size=16_281,
        input_shape=(134,),
        classes=2,
        majority=0.7637737239727289,
        note="Census answers of 1994; does a person earn over 50,000 dollars?",
        class_names=("at most $50,000", "over $50,000"),
    ),
    "housing": DataSet(
        label="California housing",
        train_size=16_512,
        test_size=4_128,
        input_shape=(53,),
        classes=2,
        class_names=("up to 200,000 dollars", "above"),
        majority=0.5792151162790697,
        note="Census districts of 1990; is the median house price above 200,000 "
        "dollars? The regression lab predicts the price itself.",
    ),
    "signals": DataSet(
        label="Signals in time",
        train_size=20_000,
        test_size=4_000,
        input_shape=(1, 40),
        classes=10,
        majority=0.1,
        note="Generated curves of forty points, shifted and noisy, ten classes.",
    ),
    "names": DataSet(
        label="US first names",
        train_size=40_000,
        test_size=8_000,
        input_shape=(11,),
        characters=CHARACTERS,
        classes=2,
        class_names=("male", "female"),
        majority=0.5,
        note="First names with their frequencies in the census of 1990; a man’s or a "
        "woman’s name? The model reads the letters in order.",
    ),
    "sentences": DataSet(
        label="Census sentences",
        train_size=32_561,
        test_size=500,
        input_shape=(DECODER_LENGTH - 1,),
        characters=BYTE_VALUES,
        classes=BYTE_VALUES,
        majority=0.1931901391261899,
        note="One sentence per person of the census of 1994, such as “A divorced woman "
        "of 39 works 40 hours in sales.” Accuracy is the share of next characters that "
        "the model predicts.",
    ),
}


def _model(name: str, label: str, fits: tuple[str, ...], note: str) -> Model:
    """Return the facts of a model with its default widths."""
    layers = {
        dataset: layers_of(
            name, DATA_SETS[dataset].input_shape, DATA_SETS[dataset].classes
        )
        for dataset in fits
    }
    return Model(
        label=label,
        parameters={name: sum(x.parameters for x in of) for name, of in layers.items()},
        multiply_adds={
            name: sum(x.multiply_adds for x in of) for name, of in layers.items()
        },
        note=note,
    )


MODELS: dict[str, Model] = {
    "scattering_linear": _model(
        "scattering_linear",
        "Scattering, then linear",
        ("mnist", "fashion_mnist"),
        "Fixed wavelet features, which cost no privacy, and one trained layer.",
    ),
    "logistic": _model(
        "logistic",
        "Logistic regression",
        ("mnist", "fashion_mnist", "adult", "housing"),
        "One linear layer on the raw features.",
    ),
    "mlp": _model(
        "mlp",
        "Small network (784-256-128-10)",
        ("mnist", "fashion_mnist"),
        "Two hidden layers with ReLU.",
    ),
    "cnn": _model(
        "cnn",
        "Convolutional network (tanh)",
        ("mnist", "fashion_mnist"),
        "Two convolutions and two linear layers; slower.",
    ),
    "conv1d": _model(
        "conv1d",
        "Convolutions over time (tanh)",
        ("signals",),
        "Two convolutions along the signal and a linear layer.",
    ),
    "char_lstm": _model(
        "char_lstm",
        "Embedding, then LSTM",
        ("names",),
        "An embedding of letters, an LSTM, and a linear layer on its last state.",
    ),
    "language_model": _model(
        "language_model",
        "Language model, pre-trained",
        ("sentences",),
        "A small decoder that predicts the next character of a text. Its first weights "
        "were trained on public text: the documentation of this site.",
    ),
}
