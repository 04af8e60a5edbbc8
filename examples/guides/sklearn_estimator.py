r"""
A scikit-learn estimator
========================

:mod:`covary.integrations.sklearn` has ``CovaryClassifier`` and ``CovaryRegressor``, which train with ``covary.fit`` and
go wherever scikit-learn's own estimators go: pipelines, searches, cross-validation. ``pip install covary[sklearn]``
installs what they need. Images are rows of pixels, as in scikit-learn, with their shape as a parameter.
"""

import numpy as np
from sklearn.model_selection import GridSearchCV

import covary
from covary.integrations.sklearn import CovaryClassifier

digits = covary.data.limited(covary.data.load("mnist-mini"), 300, seed=0)
images, labels = digits.x_train.flatten(1).numpy(), np.array(digits.class_names)[digits.y_train]

# %%
# The network is a name, a function that makes one, or an ``nn.Module``; the augmentation is learned on the evidence.

augment = covary.augment.Affine2d(("rotation", "shift_x", "shift_y"))
model = CovaryClassifier("mlp:50", augment=augment, image_shape=(1, 28, 28), num_samples=4, epochs=10, random_state=0)
model.fit(images, labels)
print(model.run_)
print(f"accuracy on new digits: {model.score(digits.x_test.flatten(1).numpy(), digits.y_test.numpy().astype(str)):.3f}")

# %%
# The evidence compares networks without held-out data; a search by cross-validation is as usual.

search = GridSearchCV(CovaryClassifier(epochs=5, random_state=0), {"network": ["mlp:10", "mlp:50"]}, cv=2)
print(search.fit(images, labels).best_params_)
