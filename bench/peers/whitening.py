"""Writes crates/train/tests/data/whitening.tsv: whitening filters of patches of made-up images by numpy's eigenvectors.
One line a case: side of the patches, N, H, W, C of the images, eps, then the filters [side, side, C, K], from the
largest second moment to the smallest, each with its largest value above zero.

Usage: python bench/peers/whitening.py > crates/train/tests/data/whitening.tsv
"""

import numpy as np

print(f"# numpy {np.__version__}; origin: bench/peers/whitening.py")
for side, shape, eps in [(2, (9, 8, 8, 3), 5e-4), (3, (20, 9, 8, 3), 1e-2), (3, (4, 6, 5, 1), 1e-2)]:
    i = np.arange(np.prod(shape), dtype=np.float64)
    images = (0.9 * np.sin(0.37 * i) + 0.5 * np.cos(0.11 * i + 0.002 * i * i)).astype(np.float32).reshape(shape)
    windows = np.lib.stride_tricks.sliding_window_view(images.astype(np.float64), (side, side), axis=(1, 2))
    # [N, Y, X, C, KH, KW] to one row a patch.
    patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, side * side * shape[3])
    moments, vectors = np.linalg.eigh(patches.T @ patches / len(patches))
    moments, vectors = moments[::-1], vectors[:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(moments))])
    filters = vectors * signs / np.sqrt(moments + eps)
    print("\t".join(map(str, (side, *shape, eps))) + "\t" + "\t".join(f"{x:.9g}" for x in filters.ravel()))
