"""Fashion-MNIST from a folder, and fixed features of its images, which learn nothing from any of them.

DENIABLE_DATA names the folder that holds `fashion-mnist/train-images-idx3-ubyte.gz` and the three other files.
"""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

SIDE, PAD, ANGLES, SCALES, BINS = 28, 4, 8, 2, 9


def folder() -> Path:
    """Where the data are."""
    place = os.environ.get("DENIABLE_DATA")
    if not place:
        raise SystemExit("set DENIABLE_DATA to the folder that holds fashion-mnist/, for example DENIABLE_DATA=data")
    return Path(place) / "fashion-mnist"


def images(part: str) -> tuple[Tensor, Tensor]:
    """The images of "train" or "t10k" in [0, 1], with one channel, and their labels."""
    found = []
    for name, skip in ((f"{part}-images-idx3-ubyte.gz", 16), (f"{part}-labels-idx1-ubyte.gz", 8)):
        with gzip.open(folder() / name) as file:
            found.append(np.frombuffer(file.read(), dtype=np.uint8, offset=skip))
    pixels = torch.from_numpy(found[0].reshape(-1, 1, SIDE, SIDE).astype(np.float32) / 255)
    return pixels, torch.from_numpy(found[1].astype(np.int64))


def gradients(pixels: Tensor, *, batch: int = 2000) -> Tensor:
    """Histograms of oriented gradients (Dalal and Triggs 2005), 9 angles in 7 × 7 cells, 36 blocks of 2 × 2 cells."""
    return torch.cat([_histograms(part) for part in pixels.split(batch)])


def _histograms(pixels: Tensor) -> Tensor:
    padded = torch.nn.functional.pad(pixels, (1,) * 4, mode="replicate")
    across = padded[:, 0, 1:-1, 2:] - padded[:, 0, 1:-1, :-2]
    down = padded[:, 0, 2:, 1:-1] - padded[:, 0, :-2, 1:-1]
    angle = torch.atan2(down, across) / math.pi % 1 * BINS
    low, length = angle.floor(), torch.hypot(across, down)
    # Every pixel votes for the two nearest angles.
    votes = sum(
        torch.nn.functional.one_hot((low.long() + side) % BINS, BINS) * (length * share).unsqueeze(3)
        for side, share in ((0, 1 - angle + low), (1, angle - low))
    )
    blocks = torch.nn.functional.unfold(torch.nn.functional.avg_pool2d(votes.permute(0, 3, 1, 2), 4), 2)
    for _ in range(2):  # normalised, cut at 0.3, normalised again
        blocks = (blocks / (blocks.norm(dim=1, keepdim=True) + 0.05)).clamp(max=0.3)
    return blocks.flatten(1)


def scattering(pixels: Tensor, *, batch: int = 64) -> Tensor:
    """Scattering coefficients of order 0, 1 and 2 (Bruna and Mallat 2013), 81 channels of 7 × 7 per image.

    Channels are normalised within each image by groups of 3, as in a GroupNorm without parameters: what comes out of
    one image depends on that image alone.
    """
    waves = _wavelets(SIDE + 2 * PAD).to(pixels.device)
    parts = [torch.nn.functional.group_norm(_scattered(part, waves), 27).flatten(1) for part in pixels.split(batch)]
    return torch.cat(parts)


def _scattered(pixels: Tensor, waves: Tensor) -> Tensor:
    padded = torch.nn.functional.pad(pixels, (PAD,) * 4, mode="reflect")
    first = torch.fft.ifft2(torch.fft.fft2(padded) * waves).abs()  # [n, scale·angle, s, s]
    spectra = torch.fft.fft2(first[:, :ANGLES])[:, :, None] * waves[ANGLES:]
    # Of what a coarse wavelet lets through, every second pixel says it all: fold the spectrum, then go back.
    half = spectra.shape[-1] // 2
    folded = spectra.unflatten(-1, (2, half)).mean(-2).unflatten(-2, (2, half)).mean(-3)
    second = torch.fft.ifft2(folded).abs().flatten(1, 2)
    return torch.cat([_smoothed(padded, 1), _smoothed(first, 1), _smoothed(second, 2)], dim=1)


def _smoothed(maps: Tensor, step: int) -> Tensor:
    """Gaussian averages around every fourth pixel of the image, for maps that hold every `step`-th pixel."""
    places = torch.arange(maps.shape[-1], device=maps.device) * step - PAD
    centres = torch.arange(0, SIDE, 2**SCALES, device=maps.device)
    weights = torch.exp(-((places[None] - centres[:, None]) ** 2) / (2 * (0.8 * 2 ** (SCALES - 1)) ** 2))
    weights = weights / weights.sum(1, keepdim=True)
    return weights @ maps @ weights.T


def _wavelets(size: int) -> Tensor:
    """Morlet wavelets by scale and angle, as Fourier multipliers."""
    waves = [
        _morlet(size, sigma=0.8 * 2**scale, turn=math.pi * angle / ANGLES, frequency=0.75 * math.pi / 2**scale)
        for scale in range(SCALES)
        for angle in range(ANGLES)
    ]
    return torch.stack([torch.fft.fft2(wave) for wave in waves])


def _morlet(size: int, *, sigma: float, turn: float, frequency: float) -> Tensor:
    wave = _gabor(size, sigma=sigma, turn=turn, frequency=frequency, slant=4 / ANGLES)
    window = _gabor(size, sigma=sigma, turn=turn, frequency=0.0, slant=4 / ANGLES)
    return wave - wave.sum() / window.sum() * window


def _gabor(size: int, *, sigma: float, turn: float, frequency: float, slant: float) -> Tensor:
    """A wave under a Gaussian window, centred at 0 on a periodic grid."""
    line = torch.fft.fftfreq(size, d=1 / size)
    y, x = torch.meshgrid(line, line, indexing="ij")
    along, across = x * math.cos(turn) + y * math.sin(turn), -x * math.sin(turn) + y * math.cos(turn)
    window = torch.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2))
    return window * torch.exp(1j * frequency * along) * slant / (2 * math.pi * sigma**2)
