"""What the tests of linear_logp share: tensors, a call with its gradients, and the two operators in
sequence, which it must equal."""

from __future__ import annotations

import torch
from helpers import bits

from workbench.ops import AscendBatchInvariantLogpOp, AscendLMHeadOp

ROWS, H, V = (2, 9), 70, 65


def tensors(dtype=torch.float32, seed=0, rows=ROWS, width=H, vocab=V):
    """hidden, weight, bias, target (two ignored rows), and the gradients of logp and lse."""
    g = torch.Generator().manual_seed(seed)
    shapes = ((*rows, width), (vocab, width), (vocab,))
    hidden, weight, bias = (torch.randn(shape, generator=g).to(dtype) for shape in shapes)
    target = torch.randint(vocab, rows, generator=g)
    target.view(-1)[torch.tensor([3, 10]) % target.numel()] = -100
    return (
        hidden,
        weight,
        bias,
        target,
        torch.randn(rows, generator=g),
        torch.randn(rows, generator=g),
    )


def run(op, hidden, weight, bias, target, grad_logp, grad_lse, **options):
    """[logp, lse, grad_hidden, grad_weight, grad_bias]; the last only with a bias."""
    leaves = [t.clone().requires_grad_() for t in (hidden, weight, bias) if t is not None]
    h, w, *b = leaves
    logp, lse = op(h, w, target, *b, return_lse=True, **options)
    torch.autograd.backward([logp, lse], [grad_logp, grad_lse])
    return [logp.detach(), lse.detach(), *(t.grad for t in leaves)]


class InSequence:
    """The two operators one after the other: what linear_logp must equal."""

    def __init__(self, config=None, logp_config=None):
        self.head, self.logp = AscendLMHeadOp(config), AscendBatchInvariantLogpOp(logp_config)

    def __call__(self, hidden, weight, target, bias=None, logits_dtype=None, **options):
        wide = logits_dtype == torch.float32
        logits = (self.head.forward_fp32 if wide else self.head)(hidden, weight, bias)
        return self.logp(logits, target, **options)


def assert_same_bits(got, want, what=""):
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape, (what, i)
        assert (bits(a) == bits(b)).all(), (what, i)
