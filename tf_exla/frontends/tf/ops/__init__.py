"""What is known of TensorFlow's ops, told without TensorFlow: `record.py`, `table.py`."""
