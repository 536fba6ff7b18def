"""What is known of JAX's primitives: ops of the vocabulary that they are, and records of others."""
