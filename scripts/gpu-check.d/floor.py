"""The least time a step can take: what it has to move through the GPU's memory."""

# Megabytes per image at 224 px in 16 bits: every activation counted once for each kernel that reads or writes it, nothing
# from caches, by what is fused into the convolutions (docs/cuda.md). Convolutions read and write 43.7 + 41.6 + 43.7 of it.
MEGABYTES = {"none": 370.0, "addition": 347.6, "statistics": 325.0, "full": 304.0}
BYTES_OF = {"fp16": 2, "bf16": 2, "tf32": 4, "fp32": 4}


def images_per_second(copy_bytes_per_second, fusion, precision, image_size):
    """With nothing but memory in the way; None for a level that is not in the table."""
    if fusion not in MEGABYTES or not copy_bytes_per_second:
        return None
    megabytes = MEGABYTES[fusion] * (image_size / 224) ** 2 * BYTES_OF[precision] / 2
    return copy_bytes_per_second / (megabytes * 1e6)
