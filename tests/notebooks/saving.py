"""A trained model copied, stored and loaded; its compiled predictions saved for serving."""

import tempfile

import gpflow
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (8001, 2))
Y = np.sin(4 * X[:, :1]) + 0.1 * rng.normal(size=(8001, 1))


def build():
    return gpflow.models.SGPR((X, Y), gpflow.kernels.Matern32(), X[:40].copy(), noise_variance=0.1)


def show(pair):
    print(*(float(tf.reduce_sum(each)) for each in pair))


model = build()
gpflow.optimizers.Scipy().minimize(
    model.training_loss, model.trainable_variables, options={"maxiter": 2}
)
show(model.predict_y(X))
other = build()
gpflow.utilities.multiple_assign(other, gpflow.utilities.read_values(model))
show(other.predict_f(X))
show(gpflow.utilities.deepcopy(model).predict_f(X[:1000]))
show(gpflow.utilities.freeze(model).predict_f(X[:1000]))
folder = tempfile.mkdtemp()
path = tf.train.Checkpoint(model=model).save(f"{folder}/checkpoint")
fresh = build()
tf.train.Checkpoint(model=fresh).restore(path)
show(fresh.predict_f(X[:1000]))
posterior = model.posterior(gpflow.posteriors.PrecomputeCacheType.VARIABLE)
show(posterior.predict_f(X))
model.kernel.lengthscales.assign(0.7)
posterior.update_cache()
show(posterior.predict_f(X[:3000]))
signature = [tf.TensorSpec([None, 2], tf.float64)]
served = tf.Module()
served.model = model
served.predict = tf.function(lambda x: model.predict_y(x), input_signature=signature)
served.samples = tf.function(lambda x: model.predict_f(x, full_cov=True), input_signature=signature)
show(served.predict(X))
show(served.predict(X[:3001]))
show(served.samples(X[:701]))
tf.saved_model.save(served, folder)
loaded = tf.saved_model.load(folder)
show(loaded.predict(X))
show(loaded.samples(X[:601]))
