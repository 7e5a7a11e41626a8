"""What every classifier of this library promises, as functions over a maker of tiny models."""

import torch
from torch.testing import assert_close

from .. import tiny

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@torch.no_grad()
def logits(model, ids, mask, **kwargs) -> torch.Tensor:
    """Scores of a batch in evaluation mode."""
    return model.eval()(ids, mask, **kwargs).logits


def check_save_and_load(make, folder) -> None:
    """Weights, label names and threshold survive `save_pretrained`; the file is safetensors."""
    model = make(id2label={i: f"code {i}" for i in range(5)}, label2id={f"code {i}": i for i in range(5)})
    model.config.threshold = 0.125
    model.save_pretrained(folder)
    assert (folder / "model.safetensors").exists() and not list(folder.glob("*.bin"))
    again = type(model).from_pretrained(folder)
    assert again.config.id2label[3] == "code 3" and again.config.threshold == 0.125
    ids, mask = tiny.documents()
    assert_close(logits(again, ids, mask), logits(model, ids, mask))


def check_everything_is_initialised(make) -> None:
    """No parameter or buffer is left as uninitialised memory (which is poisoned with NaN here)."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        model = make()
    finally:
        torch.use_deterministic_algorithms(False)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        assert not tensor.is_floating_point() or torch.isfinite(tensor).all(), name
        assert tensor.is_floating_point() or tensor.long().abs().sum() < 10**9, name


def check_padding(make) -> None:
    """A chunk of padding behind the documents changes nothing."""
    model, (ids, mask) = make(), tiny.documents()
    more = [torch.cat([t, torch.zeros_like(t[:, :1])], 1) for t in (ids, mask)]
    assert_close(logits(model, *more), logits(model, ids, mask), **CLOSE)


def check_batch(make) -> None:
    """A document scores the same alone, in a batch and in another order."""
    model, (ids, mask) = make(), tiny.documents()
    whole = logits(model, ids, mask)
    alone = torch.cat([logits(model, ids[i : i + 1], mask[i : i + 1]) for i in range(3)])
    assert_close(alone, whole, **CLOSE)
    assert_close(logits(model, ids.flip(0), mask.flip(0)), whole.flip(0), **CLOSE)


def check_windows(make) -> None:
    """Reading in small windows equals reading whole, scores and loss."""
    model, (ids, mask) = make(), tiny.documents((45, 30, 9))
    truth = tiny.targets(3)
    whole = model(ids, mask, labels=truth)
    model.config.bptt_chunks = 1
    cut = model(ids, mask, labels=truth)
    assert_close(cut.logits, whole.logits, **CLOSE)
    assert_close(cut.loss, whole.loss, **CLOSE)


def check_gradients(make) -> None:
    """The loss has a gradient in every parameter."""
    model, (ids, mask) = make().train(), tiny.documents()
    model(ids, mask, labels=tiny.targets(3)).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{name} has no gradient"
        grad = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
        assert torch.isfinite(grad).all() and grad.abs().sum() > 0, f"the gradient of {name} is zero"


def check_overfits(make, rate: float = 0.03, rounds: int = 10) -> None:
    """Four documents are learned by heart, within 200 steps."""
    model, (ids, mask) = make().train(), tiny.documents((21, 17, 9, 12))
    truth = tiny.targets(4)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], rate)
    for _ in range(rounds):
        _train(model.train(), ids, mask, truth, optimizer)
        if torch.equal((logits(model, ids, mask) > 0).float(), truth):
            return
    assert torch.equal((logits(model, ids, mask) > 0).float(), truth)


def _train(model, ids, mask, truth, optimizer, steps: int = 20) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(ids, mask, labels=truth).loss.backward()
        for parameter in model.parameters():
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()
        optimizer.step()


def check_tuple(make) -> None:
    """`return_dict=False` gives the same values as a plain tuple."""
    model, (ids, mask) = make(), tiny.documents()
    truth = tiny.targets(3)
    plain, named = model(ids, mask, labels=truth, return_dict=False), model(ids, mask, labels=truth)
    assert isinstance(plain, tuple)
    assert_close(plain[0], named.loss)
    assert_close(plain[1], named.logits)


def check_attentions(make) -> None:
    """Attention weights of a label sum to one over real tokens and are zero on padding."""
    model, (ids, mask) = make(), tiny.documents((21, 13, 0))
    weights = model(ids, mask, output_attentions=True).label_attentions
    total = weights.sum(2)
    assert_close(total[:2], torch.ones_like(total[:2]), **CLOSE)
    flat = mask.flatten(1).bool()
    assert (weights.masked_select(~flat[:, None, :].expand_as(weights)) == 0).all()


def check_empty_document(make) -> None:
    """A document without a word is legal, and its scores depend on nothing but the label."""
    model, (ids, mask) = make(), tiny.documents((21, 0, 0))
    scores = logits(model, ids, mask)
    assert torch.isfinite(scores).all()
    assert_close(scores[1], scores[2])
    assert_close(logits(model, ids[1:, :1], mask[1:, :1])[0], scores[1], **CLOSE)


def check_label_counts(make) -> None:
    """One label and nine thousand labels both work."""
    ids, mask = tiny.documents((9,))
    for count in (1, 9000):
        model = make(num_labels=count)
        output = model(ids, mask, labels=torch.zeros(1, count))
        assert output.logits.shape == (1, count) and torch.isfinite(output.loss)
