"""Records of TensorFlow's ops, available without TensorFlow: `record.py`, `table.py`."""
