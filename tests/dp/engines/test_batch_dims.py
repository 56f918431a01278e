"""Which dimension counts the samples is told by passes of different sizes."""

from dpsgd_explorer.dp.engines.batch_dims import BatchDims


def learnt(shape_of):
    batch_dims = BatchDims()
    batch_dims.learning = True
    for size in (2, 3):
        batch_dims.batch_dim("layer#1.input", shape_of(size), size, 2, may_share=True)
    batch_dims.learning = False
    return batch_dims


def test_as_many_positions_as_samples_of_one_pass_are_not_samples():
    batch_dims = learnt(lambda size: (2, size, 5))
    assert batch_dims.batch_dim("layer#1.input", (2, 2, 5), 2, 2, may_share=True) == 1


def test_what_never_moves_is_shared():
    batch_dims = learnt(lambda size: (2, 4))
    assert batch_dims.batch_dim("layer#1.input", (2, 4), 2, 2, may_share=True) is None


def test_a_later_call_is_read_as_the_last_one_that_was_seen():
    batch_dims = learnt(lambda size: (4, size, 5))
    for call in ("layer#2.input", "layer#7.input"):
        assert batch_dims.batch_dim(call, (6, 6, 5), 6, 2, may_share=True) == 1
    assert batch_dims.batch_dim("other#2.input", (6, 5, 5), 6, 2, may_share=True) == 0


def test_what_was_found_is_forgotten_with_the_shapes():
    batch_dims = learnt(lambda size: (4, size, 5))
    question = "layer#1.input", (6, 6, 5), 6, 2
    assert [batch_dims.batch_dim(*question, may_share=True) for _ in "ab"] == [1, 1]
    batch_dims.forget()
    batch_dims.learning = True
    for size in (2, 3):
        shape = (size, 4, 5)
        batch_dims.batch_dim("layer#1.input", shape, size, 2, may_share=True)
    batch_dims.learning = False
    assert batch_dims.batch_dim(*question, may_share=True) == 0
