"""A convolution, unfolded: what the script shows is what torch computes."""

import torch
from torch.nn.functional import conv2d
from torch.nn.functional import unfold as torch_unfold

from dpsgd_explorer.web.hub.widgets.unfolded import widget


def image():
    return torch.tensor(widget.data()["image"], dtype=torch.float64)[None, None]


def test_both_products_are_torch_s():
    output, gradient = widget.data()["ways"]
    assert (output["name"], gradient["name"]) == ("output", "gradient")
    matrix = torch_unfold(image(), 2)[0]
    assert matrix.T.tolist() == output["lines"] == widget.data()["columns"]
    assert matrix.tolist() == gradient["lines"]
    kernel = torch.tensor(output["by"], dtype=torch.float64).reshape(1, 1, 2, 2)
    made = conv2d(image(), kernel.requires_grad_())
    assert made.flatten().tolist() == output["makes"]
    made.backward(torch.tensor(gradient["by"], dtype=torch.float64).reshape(made.shape))
    assert kernel.grad.flatten().tolist() == gradient["makes"]


def test_a_line_of_either_product_is_a_window_of_the_image():
    """So the script lights up the same square of pixels for both."""
    side = widget.data()["side"]
    for way in widget.data()["ways"]:
        for place, pixels in enumerate(way["lines"]):
            row, column = divmod(place, side)
            window = image()[0, 0, row : row + 2, column : column + 2]
            assert window.flatten().tolist() == pixels
            product = sum(a * b for a, b in zip(pixels, way["by"], strict=True))
            assert product == way["makes"][place]


def test_columns_and_rows_are_told_apart_where_the_matrix_is_not_symmetric(monkeypatch):
    """That of the picture is, since its output is as large as its kernel."""
    assert widget.places() == (1, 2, 3, 4)
    larger = ((1, 2, 0, 3), (0, 1, 3, -1), (2, 1, 1, 0), (4, 0, -2, 1))
    monkeypatch.setattr(widget, "IMAGE", larger)
    monkeypatch.setattr(widget, "SIDE", 3)
    slopes = ((2, -1, 0), (1, 1, 3), (0, -2, 1))
    monkeypatch.setattr(widget, "OUTPUT_GRADIENT", slopes)
    test_both_products_are_torch_s()
    output, gradient = widget.data()["ways"]
    assert (len(output["lines"]), len(gradient["lines"])) == (9, 4)
