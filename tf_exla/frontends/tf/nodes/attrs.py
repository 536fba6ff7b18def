"""Attributes of ops: TensorFlow's protos to plain Python values, and back.

A dtype is its name ("float64"), a shape a tuple with None for an unknown size (None as a whole for
an unknown rank), a string is `str` where it is text and `bytes` elsewhere. Functions and tensors
stay protos.

Attributes that follow from the operands are left out: their dtypes, and the lengths of lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import op_def_registry

_FIELDS = {"int": "i", "float": "f", "bool": "b", "string": "s", "type": "type", "shape": "shape"}


@cache
def attr_types(op: str) -> Mapping[str, str]:
    """Return the attributes that an op declares, with their types as written in its OpDef."""
    return {attr.name: attr.type for attr in op_def_registry.get(op).attr}


# Settings of kernels at their usual values, where they do not change what an op computes.
_NONE = object()
_USUAL = {
    "Truncate": False,
    "grad_a": False,
    "grad_b": False,
    "grad_x": False,
    "grad_y": False,
    "incompatible_shape_error": True,
}


# Names of attributes in graphs where they differ from TensorFlow's, by op.
_RENAMED = {"Cast": {"DstT": "dtype"}}


def tensorflow_attrs(op: str, attrs: Mapping[str, Any], dtypes: Sequence[str]) -> Mapping[str, Any]:
    """Return all attributes of an op of TensorFlow: a node's, and those that `dtypes` imply."""
    named = {there: attrs[here] for there, here in _RENAMED.get(op, {}).items() if here in attrs}
    return {**_operand_attrs(op, dtypes), **named, **attrs}


def _operand_attrs(op: str, dtypes: Sequence[str]) -> dict[str, Any]:
    """Return the attributes that follow from operands of `dtypes`.

    With several lists of operands their lengths are unknown, and nothing is returned.
    """
    args = op_def_registry.get(op).input_arg
    lists = [arg for arg in args if arg.number_attr or arg.type_list_attr]
    if len({arg.number_attr or arg.type_list_attr for arg in lists}) > 1:
        return {}
    each = (len(dtypes) - (len(args) - len(lists))) // max(len(lists), 1)
    found: dict[str, Any] = {}
    rest = list(dtypes)
    for arg in args:
        count = each if arg.number_attr or arg.type_list_attr else 1
        taken, rest = rest[:count], rest[count:]
        if arg.type_list_attr:
            found[arg.type_list_attr] = taken
        if arg.number_attr:
            found[arg.number_attr] = count
        if arg.type_attr and taken:
            found[arg.type_attr] = taken[0]
    return found


def decode(
    op: str, protos: Mapping[str, attr_value_pb2.AttrValue], dtypes: Sequence[str]
) -> dict[str, Any]:
    """Return the attributes of a node of type `op`, with operands of `dtypes`, as Python values."""
    followed = _operand_attrs(op, dtypes)
    renamed = _RENAMED.get(op, {})
    found = {
        renamed.get(name, name): _decode(protos[name], type_)
        for name, type_ in attr_types(op).items()
        if name in protos and name not in followed
    }
    return {
        name: value
        for name, value in found.items()
        if name not in _USUAL or _USUAL[name] is not value
    }


def encode(op: str, values: Mapping[str, Any]) -> dict[str, attr_value_pb2.AttrValue]:
    """Return those of `values` that `op` declares as protos."""
    return {
        name: _encode(values[name], type_)
        for name, type_ in attr_types(op).items()
        if name in values
    }


def dtype_enum(name: str) -> int:
    """Return TensorFlow's number of the dtype `name`."""
    return int(tf.as_dtype(name).as_datatype_enum)


def shape_of(shape: tf.TensorShape) -> tuple[int | None, ...] | None:
    """Return a TensorShape as a tuple, None for an unknown rank."""
    return None if shape.rank is None else tuple(shape.as_list())


def _decode(proto: attr_value_pb2.AttrValue, type_: str) -> Any:
    if type_.startswith("list("):
        item = type_[len("list(") : -1]
        if item not in _FIELDS:
            return list(getattr(proto.list, item))
        return [_item(value, item) for value in getattr(proto.list, _FIELDS[item])]
    if type_ in _FIELDS:
        return _item(getattr(proto, _FIELDS[type_]), type_)
    return getattr(proto, type_)


def _item(value: Any, type_: str) -> Any:
    if type_ == "type":
        return tf.as_dtype(value).name
    if type_ == "shape":
        return shape_of(tf.TensorShape(value))
    if type_ == "string":
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value


def _encode(value: Any, type_: str) -> attr_value_pb2.AttrValue:
    proto = attr_value_pb2.AttrValue()
    if type_.startswith("list("):
        item = type_[len("list(") : -1]
        proto.list.SetInParent()
        target = getattr(proto.list, _FIELDS.get(item, item))
        target.extend(_proto_item(entry, item) for entry in value)
    elif type_ == "shape":
        proto.shape.CopyFrom(_proto_item(value, type_))
    elif type_ in _FIELDS:
        setattr(proto, _FIELDS[type_], _proto_item(value, type_))
    else:
        getattr(proto, type_).CopyFrom(value)
    return proto


def _proto_item(value: Any, type_: str) -> Any:
    if type_ == "type":
        return dtype_enum(value)
    if type_ == "shape":
        return tf.TensorShape(value).as_proto()
    if type_ == "string":
        return value.encode() if isinstance(value, str) else value
    return value
