"""Linear layers whose rows do not depend on the rows beside them: oneDNN's matrix product instead of torch's choice."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class InvariantLinear(nn.Linear):
    """A linear layer in float32 on the CPU, computed by one kernel for every number of rows.

    torch takes other kernels for one row, for few and for many, which round in other ways. A layer becomes one by
    `__class__`, so that it stays the module that others hold.
    """

    packed: Tensor | None = None
    """The weight in oneDNN's own layout, which is read faster and gives the same bits; None: the dense one is read."""

    def forward(self, input: Tensor) -> Tensor:
        """`[..., in_features]` → `[..., out_features]`."""
        rows = input.reshape(-1, self.in_features)
        num_rows = rows.shape[0]
        if num_rows == 1:  # alone it would be a matrix-vector product
            rows = rows.repeat(2, 1)
        weight = self.weight if self.packed is None else self.packed
        out: Tensor = _product()(rows.contiguous(), weight, self.bias, "none", [], "")
        return out[:num_rows].view(*input.shape[:-1], self.out_features)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.packed is not None:
            destination[f"{prefix}weight"] = self.packed.to_dense()

    # oneDNN's layout can be neither copied nor pickled: a copy packs anew.

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        return state | {"packed": None if self.packed is None else self.packed.to_dense()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if self.packed is not None:
            self.packed = pack(self.packed)


def is_available() -> bool:
    """Whether this build of torch has oneDNN's product for dense and for packed weights."""
    return bool(torch._C._has_mkldnn) and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def pack(weight: Tensor) -> Tensor:
    """A private copy of the weight in oneDNN's own layout."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    return packed


def _product() -> Any:
    return torch.ops.mkldnn._linear_pointwise
