"""JAX: jaxprs to graphs and back, compiled and certified."""
