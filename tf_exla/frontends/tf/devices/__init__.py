"""Run sharded plans on the devices of one process, or of a cluster of TensorFlow servers."""
