"""Rules of ops on batches of images: convolution, pooling, normalization, space and channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.vocabulary.rules.builders import Letters, arrow, rank, sizes, text_attr, whole


def channels_first(node: Node) -> bool:
    """Return whether the axis of channels follows that of the batch."""
    form = text_attr(node, "data_format", "NHWC")
    if form in ("NHWC", "NDHWC"):
        return False
    if form in ("NCHW", "NCDHW"):
        return True
    raise Refusal(f"{node.op} {node.name} has the data format {form}")


def _image(node: Node, space: str, channels: str) -> list[str]:
    """Name the axes of a batch of images, or of results of the same layout."""
    places = [f"{space}{axis}" for axis in range(rank(node.outputs[0]) - 2)]
    return ["n", channels, *places] if channels_first(node) else ["n", *places, channels]


def convolution(kind: str, image_at: int, filter_at: int, result_at: int) -> Callable[[Node], str]:
    """Convolve a batch of images with filters, or compute one of the two gradients.

    `image_at`, `filter_at`, `result_at`: positions of these operands, -1 for the result of the op.
    Any other operand holds the result's shape. `kind`: "full" or "depthwise".
    """

    def rule(node: Node) -> str:
        tensors = (*node.inputs, node.output)
        if kind == "depthwise":
            c, filters, o = "c", ["c", "M"], "(c M)"
        elif _channels(node, tensors[image_at]) == sizes(tensors[filter_at])[-2]:
            c, filters, o = "c", ["c", "o"], "o"
        else:  # groups of channels
            c, filters, o = "C", ["D", "O"], "O"
        windows = [f"F{axis}" for axis in range(rank(node.output) - 2)]
        names = {
            image_at: _image(node, "H", c),
            filter_at: windows + filters,
            result_at: _image(node, "P", o),
        }
        reduced = {image_at: o, filter_at: "n", result_at: c}[-1]
        splits = reduced.islower() and (kind == "full" or filter_at == -1)
        operands = [names.get(k, "=") for k in range(len(node.inputs))]
        return arrow(operands, [names[-1]], "add", [reduced] if splits else [])

    return rule


def _channels(node: Node, tensor: Tensor) -> int:
    return sizes(tensor)[1 if channels_first(node) else -1]


def pooling(*operands: str, result: str) -> Callable[[Node], str]:
    """Pool over space: batch and channels may be split.

    `operands`, `result`: "image" or "pooled"; an operand may be "=" (the shape of the result).
    """

    def rule(node: Node) -> str:
        windows = node.attrs.get("ksize")
        assert isinstance(windows, Sequence)
        if windows[0] != 1 or windows[1 if channels_first(node) else -1] != 1:
            return whole(node)
        forms = {"image": _image(node, "H", "c"), "pooled": _image(node, "P", "c")}
        return arrow([forms.get(form, "=") for form in operands], [forms[result]])

    return rule


def positions_of_maxima(*operands: str, results: int) -> Callable[[Node], str]:
    """Pool with the position of each maximum within its image, or compute the gradient of that."""

    def rule(node: Node) -> str:
        if node.attrs.get("include_batch_in_index"):
            return whole(node)
        return arrow(operands, ["n P Q C" if results == 2 else "n H W C"] * results)

    return rule


def batch_norm(node: Node) -> str:
    """Normalize channels by their own moments over all images, or by given moments.

    Given moments are results too. They are equal for each chunk of images, so a maximum combines
    them.
    """
    training = bool(node.attrs.get("is_training", True))
    image = _normalized(node, training)
    given = [["c"] if 0 not in sizes(tensor) else ["E"] for tensor in node.inputs[1:]]
    moments = [["c"]] * (len(node.outputs) - 1)
    return arrow([image, *given], [image, *moments], "max", _places(image))


def batch_norm_grad(node: Node) -> str:
    """Compute the gradients of images, scales and offsets; other results are empty."""
    image = _normalized(node, bool(node.attrs.get("is_training", True)))
    empty = [Letters().up(rank(tensor)) for tensor in node.outputs[3:]]
    return arrow(
        [image, image, *[["c"]] * (len(node.inputs) - 2)],
        [image, ["c"], ["c"], *empty],
        "add",
        _places(image),
    )


def _normalized(node: Node, whole_images: bool) -> list[str]:
    """Name the axes of normalized images; `whole_images`: moments need all images together."""
    names = _image(node, "h", "c")
    return [name if name == "c" or not whole_images else name.upper() for name in names]


def _places(names: Sequence[str]) -> list[str]:
    return [name for name in names if name != "c" and name.islower()]


def space_and_batch(node: Node) -> str:
    """Move pixels into the batch, or back: batch and space are needed whole."""
    operand = node.inputs[0]
    spatial = 2 if len(node.inputs) == 2 else sizes(node.inputs[1])[0]
    letters = Letters()
    rest = letters.low(rank(operand) - 1 - spatial)
    before, after = letters.up(1 + spatial), letters.up(1 + spatial)
    return arrow([before + rest, *["_"] * (len(node.inputs) - 1)], [after + rest])
