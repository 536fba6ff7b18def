"""stub"""
from tf_exla.ir.rates import Rates
H100 = Rates()
