"""Every number of the torch-free catalogue is the real one."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dpsgd_explorer.experiments.architecture import PRE_TRAINED
from dpsgd_explorer.experiments.catalogue import DATA_SETS, MODELS
from dpsgd_explorer.experiments.data_files.sets import absent
from dpsgd_explorer.settings import DataSources
from dpsgd_explorer.training import inputs, models
from dpsgd_explorer.training.datasets.registry import LOADERS, load
from dpsgd_explorer.training.datasets.sentences import IGNORED

# Data sets that are not in the package are checked by their sha256 when they are read.
ABSENT = absent(DataSources.from_environment())
ON_THIS_MACHINE = [name for name in DATA_SETS if name not in ABSENT]
PAIRS = [(model, data) for model in MODELS for data in MODELS[model].parameters]


def one_row(model, dataset):
    """A record as the model sees it, random."""
    facts, generator = DATA_SETS[dataset], torch.Generator().manual_seed(1)
    shape = facts.input_shape
    if facts.characters:
        return torch.randint(facts.characters, (1, *shape), generator=generator)
    row = torch.rand(2, *shape, generator=generator)
    if model in models.TRANSFORMS:
        row = models.TRANSFORMS[model](shape)(row)
    return row[:1]


def test_the_tables_know_the_same_names():
    assert LOADERS.keys() == DATA_SETS.keys()
    assert models.BUILDERS.keys() == MODELS.keys()
    assert models.TRANSFORMS.keys() <= MODELS.keys()


@pytest.mark.parametrize("name", ON_THIS_MACHINE)
def test_sizes_shapes_and_labels_are_the_data_sets_own(name):
    facts, (train, test) = DATA_SETS[name], load(name)
    assert (len(train), len(test)) == (facts.train_size, facts.test_size)
    for part in (train, test):
        assert part.inputs.shape[1:] == facts.input_shape
        assert part.inputs.dtype == (torch.int64 if facts.characters else torch.float32)
        assert not facts.characters or part.inputs.max() < facts.characters
        assert len(part.inputs) == len(part.targets)
        labels = part.targets[part.targets != IGNORED].unique().tolist()
        assert set(labels) <= set(range(facts.classes))
        if part.targets.dim() == 1:  # a text uses some of all bytes
            assert len(labels) == facts.classes


@pytest.mark.parametrize("name", ON_THIS_MACHINE)
def test_majority_is_the_share_of_the_commonest_test_label(name):
    targets = load(name)[1].targets
    counts = torch.bincount(targets[targets != IGNORED])
    assert DATA_SETS[name].majority == int(counts.max()) / int(counts.sum())


@pytest.mark.parametrize(("model", "dataset"), PAIRS)
def test_parameters_are_the_models_own(model, dataset):
    built = models.build(model, dataset, seed=1)
    count = sum(p.numel() for p in built.parameters() if p.requires_grad)
    assert MODELS[model].parameters[dataset] == count


@pytest.fixture
def plain_kernels():
    """Products that torch counts: it does not count those of oneDNN's LSTM."""
    torch._C._set_mkldnn_enabled(False)
    yield
    torch._C._set_mkldnn_enabled(True)


@pytest.mark.usefixtures("plain_kernels")
@pytest.mark.parametrize(("model", "dataset"), PAIRS)
def test_multiply_adds_are_those_of_one_forward_pass(model, dataset):
    built, row = models.build(model, dataset, seed=1), one_row(model, dataset)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        built(row)
    # torch counts a multiply-add as two operations
    assert MODELS[model].multiply_adds[dataset] == counter.get_total_flops() / 2


@pytest.mark.parametrize("model", MODELS)
def test_costs_and_parameters_are_told_for_the_same_data_sets(model):
    facts = MODELS[model]
    assert facts.parameters.keys() == facts.multiply_adds.keys()


@pytest.mark.parametrize(("model", "dataset"), PAIRS)
def test_outputs_are_one_score_a_class(model, dataset):
    built = models.build(model, dataset, seed=1)
    facts = DATA_SETS[dataset]
    positions = facts.input_shape if model == PRE_TRAINED else ()
    assert built(one_row(model, dataset)).shape == (1, facts.classes, *positions)


def test_a_model_sees_records_or_their_features():
    plain = inputs.load("mnist", "mlp", None)
    index = torch.tensor([3, 1])
    assert torch.equal(plain.train[index], load("mnist")[0].inputs[index])
    assert plain.test.shape == (10_000, 1, 28, 28)
