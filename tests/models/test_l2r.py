"""The token ranker: equations 1 and 7, checkpoints, and what the planted decoder takes from it."""

import pytest
import torch

from hf_labelattn.models.configuration_l2r import TokenRankerConfig
from hf_labelattn.models.functional_planted import index_tokens, planted_attention
from hf_labelattn.models.modeling_l2r import TokenRankerModel

SCORERS = ["mlp", "dot", "bilinear"]


def tiny_ranker(scorer="mlp", seed=0):
    torch.manual_seed(seed)
    names = {0: "038.9", 1: "428.0", 2: "V10"}
    config = TokenRankerConfig(
        vocab_size=11,
        embedding_size=4,
        hidden_size=6,
        l2r_scorer=scorer,
        id2label=names,
        label2id={name: i for i, name in names.items()},
    )
    return TokenRankerModel(config)


def test_mlp_is_the_network_on_the_concatenated_embeddings():
    model = tiny_ranker()
    first = torch.cat([model.label_projection.weight, model.token_projection.weight], 1)
    for label in range(3):
        for token in range(11):
            x = torch.cat([model.label_embedding.weight[label], model.token_embedding.weight[token]])
            expected = torch.relu(first @ x + model.token_projection.bias) @ model.output
            torch.testing.assert_close(model.scores()[label, token], expected)


def test_dot_and_bilinear_are_products():
    model = tiny_ranker("dot")
    torch.testing.assert_close(model.scores(), model.label_embedding.weight @ model.token_embedding.weight.T)
    model = tiny_ranker("bilinear")
    left = model.label_embedding.weight @ model.label_projection.weight.T
    torch.testing.assert_close(model.scores(), left @ model.token_embedding.weight.T)


@pytest.mark.parametrize("scorer", SCORERS)
def test_some_labels_and_tokens_are_rows_and_columns_of_all(scorer):
    model, labels, tokens = tiny_ranker(scorer), torch.tensor([2, 0]), torch.tensor([5, 1, 7])
    expected = model.scores()[labels][:, tokens]
    torch.testing.assert_close(model(labels, tokens).scores, expected)
    torch.testing.assert_close(model(labels, tokens, return_dict=False)[0], expected)


@pytest.mark.parametrize("scorer", SCORERS)
def test_checkpoint_loads_the_same(scorer, tmp_path):
    model = tiny_ranker(scorer)
    model.token_known[3] = False
    model.save_pretrained(tmp_path)
    loaded = TokenRankerModel.from_pretrained(tmp_path)
    assert loaded.config.id2label == model.config.id2label
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


@pytest.mark.parametrize("scorer", SCORERS)
def test_every_parameter_starts_finite_and_everything_is_known(scorer):
    model = tiny_ranker(scorer)
    assert all(torch.isfinite(p).all() and p.any() for n, p in model.named_parameters() if not n.endswith("bias"))
    assert model.label_known.all() and model.token_known.all()


def test_given_vectors_replace_the_embeddings():
    model, vectors = tiny_ranker(), torch.randn(11, 4) * 7
    model.set_token_vectors(vectors)
    torch.testing.assert_close(model.token_embedding.weight, vectors / vectors.norm(dim=1).mean())
    with pytest.raises(ValueError, match="Set `embedding_size=9` in its config"):
        model.set_token_vectors(torch.zeros(11, 9))


def test_labels_start_at_the_mean_of_their_words():
    model, before = tiny_ranker(), tiny_ranker().label_embedding.weight
    model.set_label_descriptions([[4, 6], [], [2]])
    words = model.token_embedding.weight
    torch.testing.assert_close(
        model.label_embedding.weight, torch.stack([(words[4] + words[6]) / 2, before[1], words[2]])
    )
    with pytest.raises(ValueError, match="Found 1 descriptions, expected 3"):
        model.set_label_descriptions([[1]])


@pytest.mark.parametrize("scorer", SCORERS)
def test_planted_attention_of_the_decoder_follows_the_scores(scorer):
    model, text = tiny_ranker(scorer), torch.tensor([[4, 9, 4, 2]])
    model.label_known[1] = False
    model.token_known[9] = False
    index = index_tokens(text, torch.ones_like(text))
    hidden = torch.zeros(1, 4, 2)
    found = planted_attention(hidden, index, torch.arange(3), ranker=model.pair_ranker(index.unique)).planted[0]
    expected = model.scores()[:, text[0]].masked_fill(text == 9, -torch.inf).softmax(-1)
    torch.testing.assert_close(found[[0, 2]], expected[[0, 2]])
    assert not found[1].any()


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="`embedding_size` is 0, but must be at least 1"):
        TokenRankerConfig(embedding_size=0)
    with pytest.raises(Exception, match="l2r_scorer"):
        TokenRankerConfig(l2r_scorer="cosine")
