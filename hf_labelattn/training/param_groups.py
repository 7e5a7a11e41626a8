"""Discriminative learning rates: a map from regular expression to rate."""

import json
import re
from collections.abc import Iterable, Mapping

from torch import nn


def read_rates(rates: Mapping[str, float] | str | None) -> dict[str, float]:
    """Rates from a mapping or its JSON text.

    >>> read_rates('{"^encoder": 1e-4}')
    {'^encoder': 0.0001}
    """
    if not rates:
        return {}
    parsed = json.loads(rates) if isinstance(rates, str) else dict(rates)
    return {pattern: float(rate) for pattern, rate in parsed.items()}


def match_names(names: Iterable[str], patterns: Iterable[str]) -> dict[str, str | None]:
    """The first pattern each name matches, or None; a pattern that matches no name is an error.

    >>> match_names(["encoder.w", "decoder.w"], ["^encoder"])
    {'encoder.w': '^encoder', 'decoder.w': None}
    """
    patterns, names = list(patterns), list(names)
    matched = {name: next((p for p in patterns if re.search(p, name)), None) for name in names}
    for pattern in patterns:
        if not any(re.search(pattern, name) for name in names):
            tops = sorted({name.split(".")[0] for name in names})
            raise ValueError(
                f"The pattern {pattern!r} matches no parameter. Parameters begin with: {', '.join(tops)}."
            )
    return matched


def parameter_groups(
    model: nn.Module, learning_rate: float, rates: Mapping[str, float], weight_decay: float, decayed: Iterable[str]
) -> list[dict]:
    """Optimizer groups by rate and weight decay, frozen parameters included (they may be unfrozen later)."""
    matched = match_names([name for name, _ in model.named_parameters()], rates)
    decayed, groups = set(decayed), {}
    for name, parameter in model.named_parameters():
        rate = learning_rate if matched[name] is None else rates[matched[name]]
        decay = weight_decay if name in decayed else 0.0
        groups.setdefault((rate, decay), []).append(parameter)
    return [{"params": group, "lr": rate, "weight_decay": decay} for (rate, decay), group in groups.items()]
