"""Peak FLOP/s of accelerators, to set a run's own against: model FLOPs utilisation (MFU).

MFU = FLOPs of the matrix products that the model needs / seconds / the peak of all devices
(Chowdhery et al. 2022, PaLM, appendix B). Peaks are those of dense products at the maker's boost
clock, which no kernel reaches for long.
"""

import re

from electrify.cpu import Precision

# Pattern of the name a device gives itself -> TFLOP/s in bf16 with fp32 sums, and in fp32, which is
# TF32 where the device has it (model/device.py lets torch use it). None: it has no units for that.
# Sources: NVIDIA's data sheets, halved where they print the rate with 2:4 sparsity, and for GeForce
# the white papers of GA102, AD102 and GB202, fp32 accumulation; Cloud TPU's system architecture
# pages. H100 of 80 GB HBM3 is the SXM board, of 94 GB "H100 NVL".
_PEAKS: tuple[tuple[str, float | None, float | None], ...] = (
    (r"B200", 2250.0, 1125.0),
    (r"H200 NVL", 835.5, 417.5),
    (r"H200|GH200", 989.5, 494.5),
    (r"H100 PCIe", 756.5, 378.0),
    (r"H100 NVL", 835.5, 417.5),
    (r"H100", 989.5, 494.5),
    (r"A100", 312.0, 156.0),
    (r"A10", 125.0, 62.5),
    (r"L40S", 362.0, 183.0),
    (r"L40", 181.0, 90.5),
    (r"L4", 121.0, 60.0),
    (r"RTX 5090$", 209.5, 104.8),
    (r"RTX 4090$", 165.2, 82.6),
    (r"RTX 3090$", 71.0, 35.6),
    (r"V100S", None, 16.4),
    (r"V100-SXM\d", None, 15.7),
    (r"V100", None, 14.0),
    (r"T4", None, 8.1),
    # XLA multiplies fp32 in bf16 by default. A device of v2 and v3 is one core of a chip's two.
    (r"TPU v2", 22.5, 22.5),
    (r"TPU v3", 61.5, 61.5),
    (r"TPU v4", 275.0, 275.0),
    (r"TPU v5e|TPU v5 lite|TPU v5litepod", 197.0, 197.0),
    (r"TPU v5p", 459.0, 459.0),
    (r"TPU v6e", 918.0, 918.0),
)


def peak_flops(device: str, precision: Precision) -> float:
    """FLOP/s of one device by its name, such as "NVIDIA H100 80GB HBM3"; nan where not known.

    Not known are the CPU, a part of a device (MIG), and a precision it has no units for.
    """
    if re.search(r"\bMIG\b", device):
        return float("nan")
    for pattern, bf16, fp32 in _PEAKS:
        if re.search(rf"(?<!\w)(?:{pattern})(?!\w)", device):
            peak = bf16 if precision == "bf16" else fp32
            return float("nan") if peak is None else 1e12 * peak
    return float("nan")
