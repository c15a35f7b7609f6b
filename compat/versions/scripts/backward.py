"""Backward: gradients eagerly and through a GE graph, equal to the CPU's, and a step of an optimiser."""

import copy

import torch
import torch_npu  # noqa: F401
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 4))
on_device = copy.deepcopy(model).npu()
x, target = torch.randn(5, 8), torch.randn(5, 4)


def loss_of(module, x, target):
    return ((module(x) - target) ** 2).mean()


compiled = torch.compile(on_device, backend="npu", fullgraph=True, dynamic=False)
loss_of(model, x, target).backward()
for module in (on_device, compiled):
    on_device.zero_grad()
    loss_of(module, x.npu(), target.npu()).backward()
    for expected, parameter in zip(model.parameters(), on_device.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad.cpu(), expected.grad)
before = on_device[0].weight.detach().clone()
torch.optim.AdamW(on_device.parameters(), lr=0.1).step()
assert not torch.equal(before, on_device[0].weight)
