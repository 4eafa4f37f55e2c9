from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="module")
def one_thread():
    """Products this small are slower on two threads than on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
