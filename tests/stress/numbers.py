"""Numbers: no NaN over random configurations, bfloat16 near float32, softmax at ±1e4, gradients of own functions."""

import ast
import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .forked import compute
from .tally import Tally

CONFIGURATIONS = 120
MODELS = Path(__file__).parents[2] / "hf_labelattn" / "models"


def run(tally: Tally, folder: Path, seed: int) -> None:
    """All checks in one process."""
    report = folder / "report.json"
    compute(lambda: check_all(seed, report), folder / "numbers.log")
    counted = json.loads(report.read_text())
    tally.inputs += counted["inputs"]
    for failure in counted["failures"]:
        tally.fail("numbers", failure)
    tally.notes.append(counted["note"])


def check_all(seed: int, report: Path, configurations: int = CONFIGURATIONS) -> None:
    """Write how much was tried and what failed."""
    counted = {"inputs": 0, "failures": [], "note": ""}
    draw, worst = random.Random(seed), 0.0
    checks: list[tuple[str, Callable]] = [(f"gradient of {name}", check) for name, check in gradients().items()]
    checks += [("custom functions", all_functions_are_checked), ("softmax", softmax_at_the_edge)]
    for name, check in checks:
        counted["inputs"] += 1
        attempt(counted, name, check)
    for _ in range(configurations):
        name, fields, lengths = random_case(draw)
        counted["inputs"] += 1
        far = attempt(counted, f"{name} {fields} {lengths}", lambda n=name, f=fields, k=lengths: one_model(n, f, k))
        worst = max(worst, far or 0.0)
    counted["note"] = (
        f"{configurations} random configurations, {len(gradients())} custom gradients; bfloat16 differs from float32 "
        f"by at most {worst:.1%} of the spread of scores"
    )
    report.write_text(json.dumps(counted))


def attempt(counted: dict, name: str, check: Callable):
    """The result of a check; an error is written down."""
    try:
        return check()
    except Exception as error:
        counted["failures"].append(f"{name}: {type(error).__name__}: {error}")


def random_case(draw: random.Random) -> tuple[str, dict, tuple[int, ...]]:
    """A classifier, some of its options, and documents."""
    from hf_labelattn.models.configuration_label_attention import PRESETS

    from .. import tiny

    name = draw.choice(list(tiny.CLASSIFIERS))
    fields = {"num_labels": draw.choice([1, 2, 5, 17]), "chunk_size": draw.choice([1, 5, 8, 16])}
    if name in PRESETS and PRESETS[name]["encoder"] != "transformer":
        widths = {"embedding_size": draw.choice([1, 12]), "hidden_size": draw.choice([1, 8])}
        fields |= {**widths, "attention_size": draw.choice([1, 6]), "max_ngram": draw.choice([1, 3])}
        fields |= {"kernel_sizes": draw.choice([[1], [2, 9]]), "bidirectional": draw.choice([True, False])}
    if name.startswith("plant"):
        fields |= {"inattention_k": draw.choice([1, 3, 50]), "inattention_mode": draw.choice(["mask", "zero"])}
        fields |= {"static_norm": draw.choice(["l1", "none"]), "state": draw.choice(["logit_sum", "max", "none"])}
    if name == "leam":
        fields |= {"window": draw.choice([1, 3, 6]), "pooling": draw.choice(["label", "max"])}
    if name.startswith("interaction"):
        fields |= {"combine": draw.choice(["sum", "max", "noisy_or"])}
    return name, fields, tuple(draw.choice([0, 1, 7, 8, 9, 40]) for _ in range(draw.randint(1, 4)))


def one_model(name: str, fields: dict, lengths: tuple[int, ...]) -> float:
    """Scores and gradients are finite; bfloat16 scores lie near. Gives how far off they are, of their spread."""
    import torch

    from .. import tiny

    model, (ids, mask) = tiny.CLASSIFIERS[name](**fields).train(), tiny.documents(lengths)
    output = model(ids, mask, labels=tiny.targets(len(lengths), fields["num_labels"]))
    if output.loss.requires_grad:  # a fitted model may have nothing to train
        output.loss.backward()
    assert output.logits.isfinite().all() and output.loss.isfinite(), "not finite"
    for parameter, tensor in model.named_parameters():
        grad = tensor.grad if tensor.grad is None or not tensor.grad.is_sparse else tensor.grad.to_dense()
        assert grad is None or grad.isfinite().all(), f"gradient of {parameter}"
    with torch.no_grad():
        single = model.eval()(ids, mask).logits
        half = model.to(torch.bfloat16)(ids, mask).logits.float()
    assert half.isfinite().all(), "not finite in bfloat16"
    spread = max(float(single.max() - single.min()), float(single.abs().max()), 0.1)
    # Where fewer tokens survive than there are, rounding may choose another: then scores differ by what it weighs.
    limit = 1.5 if fields.get("inattention_k", 50) < max(lengths) else 0.15
    far = float((half - single).abs().max()) / spread
    assert far < limit, f"bfloat16 is {far:.1%} of the spread away"
    return far if limit < 1 else 0.0


EDGES = ((1e4, -1e4), (1e4, 1e4), (-1e4, -1e4), (1e4, 9999.0))


def softmax_at_the_edge() -> None:
    """Scores of ±1e4 pool as the softmax in float64 does, and gradients stay finite, in every attention."""
    import torch

    for high, low in EDGES:
        scores, values = torch.tensor([high, low, low / 2, 0.0]), torch.tensor([1.0, 2.0, 3.0, 4.0])
        expected = (scores[:3].double().softmax(0) * values[:3]).sum()  # the last token is padding
        for attend in (pooled, pooled_in_windows, vectors_pooled, masked, planted):
            given = scores.clone().requires_grad_()
            found = attend(given, values, torch.tensor([True, True, True, False]))
            torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6, msg=attend.__name__)
            found.backward()
            assert given.grad.isfinite().all(), attend.__name__


def pooled(scores, values, mask):
    import torch

    from hf_labelattn.models.functional import label_pool

    one = torch.ones(1, 1)
    _, total, weighted = label_pool(scores[None, :, None], values[None, :, None], mask[None], one, one)
    return (weighted / total).squeeze()


def pooled_in_windows(scores, values, mask):
    """Token by token, merged."""
    import torch

    from hf_labelattn.models.functional import label_pool, merge_pools

    one, joined = torch.ones(1, 1), None
    for i in range(len(scores)):
        window = (tensor[i : i + 1].reshape(1, 1, 1) for tensor in (scores, values))
        found = label_pool(*window, mask[i : i + 1][None], one, one)
        joined = found if joined is None else merge_pools(joined, found)
    return (joined[2] / joined[1]).squeeze()


def vectors_pooled(scores, values, mask):
    import torch

    from hf_labelattn.models.functional import label_vectors

    _, total, vectors = label_vectors(scores[None, :, None], values[None, :, None], mask[None], torch.ones(1, 1))
    return (vectors / total[..., None]).squeeze()


def masked(scores, values, mask):
    """LEAM's."""
    from hf_labelattn.models.functional import masked_softmax

    return (masked_softmax(scores, mask) * values).sum()


def planted(scores, values, mask):
    """PLANT's learned attention: states of two numbers, one that is asked for and one that is weighed."""
    import torch

    from hf_labelattn.models.functional_planted import index_tokens, planted_logits

    hidden, ids = torch.stack([scores, values], 1)[None], torch.tensor([[2, 3, 4, 0]])
    query, weight = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    return planted_logits(hidden, index_tokens(ids, mask[None]), weight, query=query).squeeze()


def all_functions_are_checked() -> None:
    """Every `autograd.Function` of the models has a gradient check here."""
    found = set()
    for path in MODELS.glob("*.py"):
        classes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
        found |= {c.name for c in classes if any("Function" == ast.unparse(base).split(".")[-1] for base in c.bases)}
    assert found == set(gradients()), f"found {sorted(found)}, checked {sorted(gradients())}"


def gradients() -> dict[str, Callable]:
    """For each custom function, the comparison of its gradient with finite differences."""
    return {
        "_LabelPool": pool_gradient,
        "_PairScores": pair_gradient,
        "_Correlate": correlate_gradient,
        "_SoftNgramMatch": match_gradient,
        "_PlantedLogits": planted_gradient,
        "HashedBagFunction": bag_gradient,
        "_ConvolutionMaxima": maxima_gradient,
    }


def _normal(*shape: int, grad: bool = True):
    import torch

    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))
    ).requires_grad_(grad)


def pool_gradient() -> None:
    import torch

    from hf_labelattn.models.functional import label_pool

    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])

    def score(keys, values, queries, weight):
        _, total, pooled = label_pool(keys, values, mask, queries, weight)
        return pooled / total

    # Its sums are single precision: steps and tolerances are as wide as that needs.
    inputs = _normal(2, 5, 3), _normal(2, 5, 4), _normal(6, 3), _normal(6, 4)
    assert torch.autograd.gradcheck(score, inputs, eps=1e-3, atol=5e-3, rtol=5e-2)


def pair_gradient() -> None:
    import torch

    from hf_labelattn.models.functional_pairs import pair_scores

    assert torch.autograd.gradcheck(pair_scores, (_normal(4, 5), _normal(6, 5), _normal(5)))


def correlate_gradient() -> None:
    import torch

    from hf_labelattn.models.functional_leam import correlate

    assert torch.autograd.gradcheck(correlate, (_normal(3, 9), _normal(5)))


def match_gradient() -> None:
    import torch

    from hf_labelattn.models.functional_matching import LabelWords, soft_ngram_match

    words = LabelWords(torch.arange(4), torch.tensor([0, 1, 2, 3, 3]), torch.tensor([2, 0, 1, 2]))
    columns = torch.tensor([[0, 1, 2, 3, 4, 5], [5, 4, 3, 0, 0, 0]])
    lengths = torch.tensor([6, 3])
    inputs = _normal(4, 3), _normal(6, 3)
    assert torch.autograd.gradcheck(lambda a, b: soft_ngram_match(a, b, columns, lengths, words)[0], inputs)


def planted_gradient() -> None:
    import torch

    from hf_labelattn.models.functional_planted import PlantedOptions

    from ..models.test_functional_planted import Case, fast

    case, names = Case(), ("hidden", "weight", "bias", "query", "label", "token", "output")

    def logits(options, *tensors):
        for name, tensor in zip(names, tensors, strict=True):
            setattr(case, name, tensor)
        return fast(case, options)

    for fields in ({"top_k": 2}, {"top_k": None}, {"top_k": 2, "inattention_mode": "zero"}):
        tensors = [getattr(case, name).detach().requires_grad_() for name in names]
        assert torch.autograd.gradcheck(partial(logits, PlantedOptions(**fields)), tensors), fields


def bag_gradient() -> None:
    import torch

    from hf_labelattn.models.encoders import HashedBagFunction

    rows, counts = torch.tensor([0, 2, 2, 4, 1]), torch.tensor([3, 0, 2])

    class Dense(torch.autograd.Function):
        """Passes the table on, and its gradient back in the layout that gradcheck wants."""

        @staticmethod
        def forward(ctx, table):
            return table.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad.to_dense()

    assert torch.autograd.gradcheck(lambda t: HashedBagFunction.apply(Dense.apply(t), rows, counts), (_normal(5, 3),))


def maxima_gradient() -> None:
    """The best window of each filter in each part, one part of padding and one of a single word among them."""
    import torch
    from torch import nn

    from hf_labelattn.models.functional_convolution import convolution_maxima

    part = torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 1, -1], [0, 0, -1, -1, -1]])

    def score(hidden, weight, bias):
        convolution = nn.Conv1d(3, 4, 3)
        del convolution.weight, convolution.bias
        convolution.weight, convolution.bias = weight, bias
        best = convolution_maxima(convolution, hidden, part, 2)
        return best[best > -torch.inf]

    assert torch.autograd.gradcheck(score, (_normal(3, 5, 3), _normal(4, 3, 3), _normal(4)))
