"""Plans in tests are those of the rates that tf_exla comes with, whatever the user has measured."""

import os

os.environ["TF_EXLA_RATES"] = ""
