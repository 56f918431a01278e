"""Which dimension counts the samples is told by passes of different sizes."""

from dpsgd_explorer.dp.layouts import Layouts


def learnt(shape_of):
    layouts = Layouts()
    layouts.learning = True
    for size in (2, 3):
        layouts.sample_dim("call", shape_of(size), size, 2, may_share=True)
    layouts.learning = False
    return layouts


def test_as_many_positions_as_samples_of_one_pass_are_not_samples():
    layouts = learnt(lambda size: (2, size, 5))
    assert layouts.sample_dim("call", (2, 2, 5), 2, 2, may_share=True) == 1


def test_what_never_moves_is_shared():
    layouts = learnt(lambda size: (2, 4))
    assert layouts.sample_dim("call", (2, 4), 2, 2, may_share=True) is None
