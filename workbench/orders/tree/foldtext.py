"""What the shapes of a folded tree are called."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class _Form:
    """`count` of `item`, `stride` terms apart, added in a known way."""

    item: int
    stride: int
    count: int


def describe(shapes: tuple[tuple[int, ...], ...], limit: int) -> str:
    """The last of the shapes (see `workbench.orders.tree.fold.Shape`) in words."""
    if not shapes:
        return "nothing"
    if len(shapes) == 1:
        return "1 term"
    return _Writer(shapes).write(limit)


class _Writer:
    def __init__(self, shapes: tuple[tuple[int, ...], ...]):
        self.shapes = shapes
        self.sizes = [1]
        self.pairs: dict[int, _Form] = {}
        self.halves: dict[int, _Form] = {}
        self.runs: dict[int, _Form] = {}
        self.fused: dict[int, _Form] = {}
        for k, shape in enumerate(shapes[1:], 1):
            if shape[0] == -1:
                _, head, offset, item, first, stride, count = shape
                self.sizes.append(self.sizes[head] + count * self.sizes[item])
                if head == item and first - offset == stride:
                    self.runs[k] = _Form(item, stride, count + 1)
                    if count == 2 and stride > 0:  # (x0 + x1) + x2 is what pairs make of three
                        self.pairs[k] = self._three(item, stride)
                elif (head, count, stride) == (item, 2, -(first - offset) // 2):
                    self.halves[k] = _Form(item, -stride, 3)  # (x0 + x2) + x1
                continue
            self.sizes.append(sum(self.sizes[part] for part in shape[::2]))
            if len(shape) > 4:
                steps = {b - a for a, b in zip(shape[1::2], shape[3::2], strict=False)}
                if len({*shape[::2]}) == 1 and len(steps) == 1:
                    self.fused[k] = _Form(shape[0], steps.pop(), len(shape) // 2)
            else:
                self._find_pairs(k, *shape)

    def _find_pairs(self, k: int, left: int, _: int, right: int, gap: int) -> None:
        """Pairs and halves of larger numbers are made of pairs and halves of smaller ones."""
        form = self.pairs.get(left)
        if form and form.count & (form.count - 1) == 0 and gap == form.stride * form.count:
            other = self._count(right, form, self.pairs)
            if 0 < other <= form.count:
                self.pairs[k] = _Form(form.item, form.stride, form.count + other)
                return
        form = self.halves.get(left) or self.pairs.get(left)
        if form and (left in self.halves or form.count == 2) and form.stride == 2 * gap:
            other = self._count(right, form, self.halves)
            if form.count == 2 and right in self.pairs:
                other = self._count(right, form, self.pairs)
            if form.count - other in (0, 1):
                self.halves[k] = _Form(form.item, gap, form.count + other)
                return
        if left == right:
            self.pairs[k] = _Form(left, gap, 2)

    def _three(self, item: int, stride: int) -> _Form:
        form = self.pairs.get(item)
        if form and form.count & (form.count - 1) == 0 and stride == form.stride * form.count:
            return _Form(form.item, form.stride, 3 * form.count)
        return _Form(item, stride, 3)

    @staticmethod
    def _count(k: int, like: _Form, forms: dict[int, _Form]) -> int:
        if k == like.item:
            return 1
        form = forms.get(k)
        same = form and (form.item, form.stride) == (like.item, like.stride)
        return form.count if form and same else 0

    def write(self, limit: int) -> str:
        """Pieces from left to right, so that a cut text ends early. No recursion."""
        out: list[str] = []
        todo: list[int | str] = [len(self.shapes) - 1]
        written = 0
        while todo:
            piece = todo.pop()
            if isinstance(piece, str):
                out.append(piece)
                written += len(piece)
                if written > limit and any(not isinstance(p, str) for p in todo):
                    out.append(" …")
                    break
            else:
                todo += reversed(self._pieces(piece))
        return "".join(out)

    def _pieces(self, k: int) -> list[int | str]:
        if k == 0:
            return ["1 term"]
        shape = self.shapes[k]
        for forms, word in (
            (self.runs, ""),
            (self.pairs, "pairs of "),
            (self.halves, "halves of "),
            (self.fused, "fused "),
        ):
            if k in forms:
                return self._regular(forms[k], word)
        if shape[0] == -1:
            _, head, _, item, _, stride, count = shape
            # "then", since A + (B + B) is another order than (A + B) + B.
            run = self._regular(_Form(item, stride, count), "", "" if item else " terms")
            return ["(", head, " then ", *run, ")"]
        parts: list[int | str] = ["fused(" if len(shape) > 4 else "("]
        for at in range(0, len(shape), 2):
            parts += [", " if len(shape) > 4 else " + "] if at else []
            parts.append(shape[at])
        return [*parts, ")"]

    def _regular(self, form: _Form, word: str, unit: str = " in sequence") -> list[int | str]:
        size = self.sizes[form.item]
        apart = "" if form.stride == size else f", {form.stride} apart"
        if form.stride == -size:
            apart = ", downwards"
        if form.item == 0:
            return [f"{word}{form.count}{'' if word else unit}{apart}"]
        return [f"{word}{form.count} x [", form.item, f"]{apart}"]
