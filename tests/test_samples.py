from __future__ import annotations

import json
import resource
import sys

import pytest
import torch

from workbench import samples
from workbench.errors import InputError, MissingError

# CI and users both read this number in the sample's README.
MEAN_LOG_PROBABILITY = -3.416


def mean_log_probability(sample, shift=0):
    logits = sample.hidden.double() @ sample.weight.double().T
    target = (sample.target + shift) % len(sample.weight)
    return float(torch.log_softmax(logits, -1).gather(-1, target[..., None]).mean())


def test_smollm2_is_the_published_sample():
    sample = samples.smollm2()
    assert sample.hidden.shape == (4, 40, 576) and sample.hidden.dtype == torch.float32
    assert sample.weight.shape == (4096, 576) and sample.weight.dtype == torch.bfloat16
    assert sample.target.shape == (4, 40) and sample.target.dtype == torch.int64
    assert sample.vocab_id.shape == (4096,) and sample.vocab_id.dtype == torch.int64
    assert len(sample.vocab_id.unique()) == 4096
    assert sample.fixture_id == "7cd14e12081c1e4c"
    assert sample.provenance["licence"] == "Apache-2.0"
    assert "Mean log-probability" in sample.provenance["text"]
    assert f"{abs(sample.hidden).max().item():.1f}" == "47.5"


def test_targets_fit_the_hidden_states():
    sample = samples.smollm2()
    assert round(mean_log_probability(sample), 3) == MEAN_LOG_PROBABILITY
    assert mean_log_probability(sample, shift=1) < -6  # other targets do not


def test_a_caller_may_write_into_its_sample():
    samples.smollm2().hidden.zero_()
    assert samples.smollm2().fixture_id == "7cd14e12081c1e4c"


def test_smollm2_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(samples, "SMOLLM2", tmp_path)
    with pytest.raises(MissingError, match="Reinstall"):
        samples.smollm2()


def test_qwen3_normal_is_the_named_draw(monkeypatch):
    g = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(32, 4096, generator=g), torch.randn(257, 4096, generator=g)
    sample = samples.qwen3(rows=32, vocab=257, dtype=torch.float32, seed=0)
    assert torch.equal(sample.hidden, hidden) and torch.equal(sample.weight, weight)
    monkeypatch.setattr(samples, "_CHUNK", 5 * 4096)  # drawn five rows at a time
    pieces = samples.qwen3(rows=32, vocab=257, dtype=torch.float32, seed=0)
    assert pieces.fixture_id == sample.fixture_id
    other = samples.qwen3(rows=32, vocab=257, dtype=torch.float32, seed=1)
    assert other.fixture_id != sample.fixture_id
    low = samples.qwen3(rows=32, vocab=257, dtype=torch.bfloat16, seed=0)
    assert torch.equal(low.weight, weight.bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("distribution", samples.DISTRIBUTIONS)
def test_qwen3_distributions(distribution, dtype):
    sample = samples.qwen3(3, 40, distribution=distribution, dtype=dtype)
    assert sample.hidden.shape == (3, 4096) and sample.weight.shape == (40, 4096)
    assert sample.hidden.dtype == sample.weight.dtype == dtype
    assert sample.hidden.isfinite().all() and sample.weight.isfinite().all()
    assert sample.target.shape == (3,) and 0 <= sample.target.min() <= sample.target.max() < 40
    assert sample.vocab_id.tolist() == list(range(40))
    assert sample.provenance["seed"] == 0 and sample.provenance["distribution_text"]
    again = samples.qwen3(3, 40, distribution=distribution, dtype=dtype)
    assert again.fixture_id == sample.fixture_id


def test_qwen3_distributions_are_what_they_say():
    made = {
        d: samples.qwen3(8, 64, distribution=d, dtype=torch.float32) for d in samples.DISTRIBUTIONS
    }
    assert len({s.fixture_id for s in made.values()}) == len(made)
    spread = {d: float(s.weight.abs().max() / s.weight.std()) for d, s in made.items()}
    assert spread["uniform"] < 1.8 < spread["normal"] < 6 < spread["heavy_tail"]
    channels = made["outlier_channels"].hidden.abs().mean(0)
    assert channels[::512].min() > 10 > channels[1:512].max()
    assert (made["constant"].hidden == 0.25).all() and (made["constant"].weight == 0.25).all()
    line = made["linspace"].hidden
    assert (line[:, 0] == -100).all() and (line[:, -1] == 100).all()
    assert made["cancellation"].hidden[0, :4].equal(torch.tensor([1e20, 3, -1e20, 7]))


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
def test_qwen3_makes_no_fp32_copy_of_the_weight():
    samples.qwen3(1, 64)  # torch has allocated what it wants for itself
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sample = samples.qwen3(1, 1 << 15)  # 256 MiB in bf16, 512 in fp32
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 256 + 64, f"{grown} MiB for a weight of {sample.weight.nbytes >> 20} MiB"


def test_forms():
    sample = samples.qwen3(2, 5)
    entry = sample.to_dict()
    json.dumps(entry, allow_nan=False)
    assert entry["weight"] == "bfloat16[5, 4096]" and entry["fixture_id"] == sample.fixture_id
    assert "qwen3-normal" in str(sample) and "provenance" not in str(sample)


def test_edges_and_refusals():
    assert samples.qwen3(0, 1).hidden.shape == (0, 4096)
    assert samples.qwen3(2, 3, hidden_size=0).weight.shape == (3, 0)
    assert samples.qwen3(2, 3, hidden_size=17, distribution="cancellation").hidden.shape == (2, 17)
    for arguments, match in (
        ({"distribution": "cauchy"}, "cauchy"),
        ({"dtype": torch.float64}, "float64"),
        ({"rows": -1}, "rows=-1"),
        ({"vocab": 0}, "vocab=0"),
    ):
        with pytest.raises(InputError, match=match):
            samples.qwen3(**({"rows": 1, "vocab": 2} | arguments))
