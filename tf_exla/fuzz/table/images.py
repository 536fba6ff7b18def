"""Ops on images. `image` makes [n, 4, 4, d] from [n, d]."""

from __future__ import annotations

from tf_exla.fuzz.table.row import Result, Row, row
from tf_exla.fuzz.values import FLOATS, WIDE

_FEW = 20_000  # elements of the operand; its image has 16 times as many


def _image(code: str, result: Result, dtypes: tuple[str, ...] = WIDE, exact: bool = False) -> Row:
    def fitting(shape: tuple[int, ...], axis: int) -> tuple[int, ...] | None:
        return result(shape, axis) if 0 < shape[0] and 0 < shape[1] <= 8 else None

    code = code.replace("{i}", "image({a})")
    return row(code, dtypes, fitting, rank=2, most=_FEW, exact=exact)


def _spatial(height: int, width: int) -> Result:
    return lambda s, _: (s[0], height, width, s[1])


def _color(shape: tuple[int, ...], axis: int) -> tuple[int, ...] | None:
    return (shape[0], 4, 4, 3) if shape[1] == 3 else None


_FILTERS = "tf.ones([2, 2, {k}, 3], tf.{dtype}) / (4 * {k})"
_DEPTHWISE = "tf.ones([2, 2, {k}, 2], tf.{dtype}) / 4"
_GROUPED = "tf.ones([2, 2, {k} // 2, 4], tf.{dtype}) / {k}"
_MOVES = "tf.tile([[0.9, 0.1, 0.0, -0.1, 0.9, 0.0, 0.0, 0.0]], [{n}, 1])"
_BOXES = "tf.tile([[0.1, 0.2, 0.8, 0.7]], [{n}, 1]), tf.range({n})"

ROWS: tuple[Row, ...] = (
    _image("{i}", _spatial(4, 4), FLOATS),
    _image("tf.nn.conv2d({i}, " + _FILTERS + ", 1, 'SAME')", lambda s, _: (s[0], 4, 4, 3)),
    _image("tf.nn.conv2d({i}, " + _FILTERS + ", 2, 'VALID')", lambda s, _: (s[0], 2, 2, 3)),
    _image("tf.nn.conv3d({i}[..., None], tf.ones([2, 2, 1, 1, 2], tf.{dtype}) / 4, [1] * 5,"
           " 'SAME')", lambda s, _: (s[0], 4, 4, s[1], 2)),
    _image("tf.nn.depthwise_conv2d({i}, " + _DEPTHWISE + ", [1, 1, 1, 1], 'SAME')",
           lambda s, _: (s[0], 4, 4, 2 * s[1])),
    _image("tf.nn.avg_pool2d({i}, 2, 2, 'SAME')", _spatial(2, 2)),
    _image("tf.nn.max_pool2d({i}, 2, 2, 'SAME')", _spatial(2, 2)),
    _image("tf.nn.avg_pool3d({i}[..., None], [2, 2, 1], [2, 2, 1], 'SAME')",
           lambda s, _: (s[0], 2, 2, s[1], 1), ("float32",)),
    _image("tf.nn.max_pool3d({i}[..., None], [2, 2, 1], [2, 2, 1], 'SAME')",
           lambda s, _: (s[0], 2, 2, s[1], 1), ("float32",)),
    _image("tf.nn.max_pool_with_argmax({i}, 2, 2, 'SAME')[0]", _spatial(2, 2), ("float32",)),
    _image("tf.nn.dilation2d({i}, tf.zeros([2, 2, {k}], tf.{dtype}), [1] * 4, 'SAME', 'NHWC',"
           " [1] * 4)", _spatial(4, 4)),
    _image("tf.nn.local_response_normalization({i})", _spatial(4, 4), ("float32",)),
    _image("tf.compat.v1.nn.fused_batch_norm({i}, tf.ones([{k}]), tf.zeros([{k}]))[0]",
           _spatial(4, 4), ("float32",)),
    _image("tf.nn.bias_add({i}, tf.ones([{k}], tf.{dtype}))", _spatial(4, 4)),
    _image("tf.nn.space_to_depth({i}, 2)", lambda s, _: (s[0], 2, 2, 4 * s[1]), exact=True),
    _image("tf.nn.depth_to_space({i}, 2)", lambda s, _: (s[0], 8, 8, s[1] // 4)
           if s[1] % 4 == 0 else None),
    _image("tf.space_to_batch({i}, [2, 2], [[0, 0], [0, 0]])",
           lambda s, _: (4 * s[0], 2, 2, s[1])),
    _image("tf.batch_to_space(tf.tile({i}, [4, 1, 1, 1]), [2, 2], [[0, 0], [0, 0]])",
           lambda s, _: (s[0], 8, 8, s[1])),
    _image("tf.image.extract_patches({i}, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], 'VALID')",
           lambda s, _: (s[0], 2, 2, 4 * s[1])),
    *[_image(f"tf.image.resize({{i}}, [5, 6], '{method}')", _spatial(5, 6), ("float32",))
      for method in ("bicubic", "bilinear", "nearest", "lanczos3")],
    _image("tf.stop_gradient(tf.image.resize({i}, [5, 6], 'area'))", _spatial(5, 6), ("float32",)),
    _image("tf.image.crop_and_resize({i}, " + _BOXES + ", [3, 3])", _spatial(3, 3),
           ("float32",)),
    _image("tf.stop_gradient(tf.image.adjust_contrast({i}, 0.5))", _spatial(4, 4), ("float32",)),
    _image("tf.image.adjust_brightness({i}, 0.25)", _spatial(4, 4), ("float32",)),
    _image("tf.stop_gradient(tf.image.adjust_hue({i}, 0.1))", _color, ("float32",)),
    _image("tf.stop_gradient(tf.image.adjust_saturation({i}, 0.5))", _color, ("float32",)),
    _image("tf.stop_gradient(tf.image.rgb_to_hsv(tf.sigmoid({i})))", _color, ("float32",)),
    _image("tf.stop_gradient(tf.image.hsv_to_rgb(tf.sigmoid({i})))", _color, ("float32",)),
    _image("tf.stop_gradient(tf.nn.conv2d({i}, " + _GROUPED + ", 1, 'SAME'))",
           lambda s, _: (s[0], 4, 4, 4) if s[1] % 2 == 0 else None, WIDE),
    *[_image("tf.raw_ops.ImageProjectiveTransformV3(images={i}, transforms=" + _MOVES + ", "
             f"output_shape=[5, 3], fill_value=0.0, interpolation='{kind}', fill_mode='REFLECT')",
             _spatial(5, 3), ("float32",)) for kind in ("NEAREST", "BILINEAR")],
    _image("tf.stop_gradient(tf.extract_volume_patches({i}[..., None], [1, 2, 2, 1, 1],"
           " [1, 2, 2, 1, 1], 'VALID'))", lambda s, _: (s[0], 2, 2, s[1], 4), WIDE),
    _image("tf.nn.batch_normalization({i}, *tf.nn.moments({i}, [0, 1, 2]), None, None, 1e-2)",
           _spatial(4, 4), WIDE),
    _image("tf.compat.v1.nn.fused_batch_norm({i}, tf.ones([{k}]), tf.zeros([{k}]), tf.zeros([{k}])"
           ", tf.ones([{k}]), is_training=False)[0]", _spatial(4, 4), ("float32",)),
    _image("tf.pad({i}, [[0, 0], [1, 2], [2, 1], [0, 0]], 'SYMMETRIC')", _spatial(7, 7), WIDE),
    _image("tf.raw_ops.SpaceToBatch(input={i}, paddings=[[0, 0], [0, 0]], block_size=2)",
           lambda s, _: (4 * s[0], 2, 2, s[1]), WIDE),
    _image("tf.raw_ops.BatchToSpace(input=tf.tile({i}, [4, 1, 1, 1]), crops=[[0, 0], [0, 0]],"
           " block_size=2)", lambda s, _: (s[0], 8, 8, s[1]), WIDE),
    _image("tf.image.flip_left_right({i})", _spatial(4, 4)),
    _image("tf.image.rot90({i})", _spatial(4, 4)),
)  # fmt: skip
