"""Makes seven devices of the CPU; imported before anything that runs TensorFlow."""

from __future__ import annotations

import tensorflow as tf

MOST = 7
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * MOST
)
