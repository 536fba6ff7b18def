"""JAX's primitives: converters to ops of the vocabulary, and records of the other primitives."""
