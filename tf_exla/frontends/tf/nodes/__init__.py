"""Nodes as ops of TensorFlow: names, attributes, shapes, constant values."""
