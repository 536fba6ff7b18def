"""Axis rules of ops that TensorFlow alone has."""
