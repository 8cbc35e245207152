"""One thread, so that results repeat and neighbours on the machine are left alone."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
