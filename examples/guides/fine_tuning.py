r"""
Fine-tune with frozen layers
============================

A pretrained network often has a body that should not change. Freeze it with two calls: ``body.requires_grad_(False)``
for its parameters, which are then neither weights nor hyperparameters, so that they have no prior and no curvature, and
the evidence is that of the remaining ones; and ``body.eval()`` for its running statistics and dropout. ``fit`` leaves
modules in evaluation mode there.
"""

import torch
from torch import nn

import covary

digits = covary.data.load("mnist-mini")

# %%
# "Pretraining": a body that is trained on the digits 0 to 4. Use your own checkpoint instead.

torch.manual_seed(0)
body = nn.Sequential(
    *(nn.Conv2d(1, 8, 5, stride=2), nn.BatchNorm2d(8), nn.ReLU()),
    *(nn.Conv2d(8, 16, 5, stride=2), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten()),
)
head = nn.Linear(16 * 4 * 4, 5)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=2e-3)
first = digits.y_train < 5
for images, labels in zip(digits.x_train[first].split(50), digits.y_train[first].split(50), strict=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(body(images)), labels).backward()
    optimizer.step()

# %%
# Fine-tuning: a new head for the digits 5 to 9, with few images. Together with the head, a small rotation is learned.

body.requires_grad_(False)
body.eval()
frozen = {name: tensor.clone() for name, tensor in body.state_dict().items()}
network = nn.Sequential(body, nn.Linear(16 * 4 * 4, 5))
few = (digits.y_train >= 5).nonzero()[:150, 0]
train = (digits.x_train[few], digits.y_train[few] - 5)
rest = digits.y_test >= 5
test = (digits.x_test[rest], digits.y_test[rest] - 5)

averaged = covary.Averaged(network, covary.augment.Affine2d(["rotation", "scale_x", "scale_y"]), num_samples=8)
run = covary.fit(averaged, train, epochs=20, test=test, callbacks=())
print(run)
print("weights:", ", ".join(run.model.weights))

# %%
# No parameter and no running statistic of the body has changed by a single bit:

print(all(torch.equal(tensor, frozen[name]) for name, tensor in body.state_dict().items()))

# %%
# To fine-tune some parameters without integrating them, so that they need no curvature, make them point weights by
# patterns over their names: ``covary.Prior(network, point="*.bias")``. To keep the widths of the augmentation instead,
# freeze the augmentation: ``augment.requires_grad_(False)``.
#
# ``covary.Laplace(model, data, subset="last_layer")`` is the posterior of the last layer alone, for networks whose
# body was trained in any other way:

posterior = run.posterior(train)
print(posterior.predict(test[0][:3]))
