"""Axis rules of ops that only TensorFlow has."""
