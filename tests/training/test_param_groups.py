"""Learning rates by regular expression, and gradual unfreezing."""

from types import SimpleNamespace

import pytest
from torch import nn

from hf_labelattn.training.param_groups import parameter_groups
from hf_labelattn.training.unfreezing import GradualUnfreezing


def model():
    return nn.ModuleDict({"encoder": nn.Linear(2, 2), "planted": nn.Linear(2, 2), "decoder": nn.Linear(2, 2)})


def test_each_parameter_gets_the_rate_of_its_first_pattern():
    net = model()
    groups = parameter_groups(net, 1.0, {"^encoder": 0.1, "bias$": 0.5}, 0.01, ["encoder.weight", "decoder.weight"])
    rates = {id(p): (g["lr"], g["weight_decay"]) for g in groups for p in g["params"]}
    assert rates[id(net["encoder"].weight)] == (0.1, 0.01)
    assert rates[id(net["encoder"].bias)] == (0.1, 0.0)
    assert rates[id(net["planted"].bias)] == (0.5, 0.0)
    assert rates[id(net["decoder"].weight)] == (1.0, 0.01)
    assert len(rates) == 6


def test_frozen_parameters_belong_to_the_optimizer_too():
    net = model()
    net["encoder"].requires_grad_(False)
    assert sum(len(g["params"]) for g in parameter_groups(net, 1.0, {}, 0.0, [])) == 6


def test_a_pattern_that_matches_nothing_is_refused():
    with pytest.raises(ValueError, match=r"'\^encodr' matches no parameter.*: decoder, encoder, planted"):
        parameter_groups(model(), 1.0, {"^encodr": 0.1}, 0.0, [])


def test_one_more_group_trains_with_every_epoch():
    net, callback = model(), GradualUnfreezing(["^decoder", "^planted", "^encoder"])
    trained = {}
    for epoch in (0, 1, 2, 3):
        callback.on_epoch_begin(None, SimpleNamespace(epoch=float(epoch)), None, model=net)
        trained[epoch] = {name.split(".")[0] for name, p in net.named_parameters() if p.requires_grad}
    assert trained[0] == {"decoder"}
    assert trained[1] == {"decoder", "planted"}
    assert trained[2] == trained[3] == {"decoder", "planted", "encoder"}
