"""The planted decoder as the paper writes it: equations 3-6 and appendix A.3, one number at a time."""

import torch


def literal_threshold(scores, k, mode):
    """Appendix A.3 over the scores of one label in one text (no padding); survivors and their scores."""
    if k is None or (k >= len(scores) if mode == "mask" else k > len(scores)):
        return scores
    if mode == "zero":
        kth = sorted(scores.tolist(), reverse=True)[k - 1]
        return torch.stack([s if s.item() > kth else s * 0 for s in scores])
    order = sorted(range(len(scores)), key=lambda n: (-scores[n].item(), n))[:k]
    return torch.stack([s if n in order else s.detach() * 0 - torch.inf for n, s in enumerate(scores)])


def literal_attention(states, tokens, label, query, pair_score, static, options, known=lambda t: True):
    """The three attentions of one label over the real tokens of one text, each [n]; zeros where switched off."""
    nothing = states.new_zeros(len(tokens))
    if not tokens:
        return nothing, nothing, nothing
    learned = nothing if query is None else torch.softmax(torch.stack([h @ query[label] for h in states]), 0)
    g = nothing if static is None else torch.stack([static[label, t] for t in tokens])
    if options.static_norm == "l1" and g.sum() > 0:
        g = g / g.sum()
    planted = nothing
    seen = [n for n, t in enumerate(tokens) if known(t)]
    if pair_score is not None and seen:
        scores = torch.stack([pair_score(label, tokens[n]) for n in seen])
        weights = torch.softmax(literal_threshold(scores, options.top_k, options.inattention_mode), 0)
        planted = nothing.index_put((torch.tensor(seen),), weights)
    return learned, g, planted


def literal_logits(hidden, mask, token_ids, weight, bias, num_labels, **parts):
    """Equations 5 and 6: `V = (A^T H + S^T H + P^T H) * W`, summed over the hidden units, plus the bias."""
    rows = []
    for states, real, tokens in zip(hidden, mask.bool(), token_ids, strict=True):
        states, tokens = states[real], tokens[real].tolist()
        row = [bias[label] for label in range(num_labels)]
        for label in range(num_labels):
            for attention in literal_attention(states, tokens, label, **parts):
                for n in range(len(tokens)):
                    row[label] = row[label] + attention[n] * (states[n] * weight[label]).sum()
        rows.append(torch.stack(row))
    return torch.stack(rows)
