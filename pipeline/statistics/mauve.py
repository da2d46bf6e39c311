"""MAUVE (Pillutla et al. 2021): how near the distribution of one set of texts is to that of another, by their vectors.

Vectors of unit length are reduced to the principal components that hold 90% of their variance and clustered by k-means;
the clusters' shares are two histograms, p of the human texts and q of the others. For mixtures r = w p + (1 - w) q the
points (exp(-c KL(q, r)), exp(-c KL(p, r))) draw a curve from (1, 0) to (0, 1); MAUVE is the area under it, the mean of
both readings. From 0 to 1, higher is nearer. The smoothed form (MAUVE*, Pillutla et al. 2023) adds a half to a count.

Equal to the package mauve-text on the same histograms. That package clusters by faiss; here by scikit-learn, so the
clusters, which depend on the start, may differ.
"""

import numpy
from numpy.typing import NDArray

Array = NDArray[numpy.float64]


def mauve(
    human: Array, other: Array, *, clusters: int | None, scale: float, mixtures: int, smoothed: bool, seed: int
) -> float:
    """MAUVE of two sets of vectors, (n, width) and (m, width); NaN if a set has fewer than two.

    `clusters`: None for a tenth of the smaller set, at least 2. `scale`: c. `seed`: of k-means.
    """
    if min(len(human), len(other)) < 2:
        return float("nan")
    wanted = max(2, round(min(len(human), len(other)) / 10)) if clusters is None else clusters
    labels = _clustered(numpy.concatenate([other, human]), wanted, seed)
    q, p = (numpy.bincount(part, minlength=wanted).astype(numpy.float64) for part in
            (labels[: len(other)], labels[len(other) :]))  # fmt: skip
    if smoothed:
        p, q = p + 0.5, q + 0.5
    return area(p / p.sum(), q / q.sum(), scale, mixtures)


def _clustered(vectors: Array, clusters: int, seed: int) -> NDArray[numpy.intp]:
    """The cluster of each vector."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / numpy.where(lengths > 0, lengths, 1.0)
    components = PCA(random_state=seed)
    reduced = components.fit_transform(vectors)
    held = numpy.cumsum(components.explained_variance_ratio_)
    kept = int(numpy.argmax(held >= 0.9)) + 1
    found = KMeans(min(clusters, len(vectors)), n_init=5, max_iter=500, random_state=seed).fit_predict(
        reduced[:, :kept]
    )
    return numpy.asarray(found, dtype=numpy.intp)


def area(p: Array, q: Array, scale: float, mixtures: int) -> float:
    """Area under the divergence curve of two histograms; 1 if they are equal.

    >>> area(numpy.array([0.5, 0.5]), numpy.array([0.5, 0.5]), 5.0, 25)
    1.0
    """
    weights = numpy.linspace(1e-6, 1 - 1e-6, mixtures)
    blends = [w * p + (1 - w) * q for w in weights]
    x = numpy.array([0.0, *(_divergence(q, r) for r in blends), numpy.inf])
    y = numpy.array([numpy.inf, *(_divergence(p, r) for r in blends), 0.0])
    x, y = numpy.exp(-scale * x), numpy.exp(-scale * y)
    by_x, by_y = numpy.lexsort((-y, x)), numpy.lexsort((-x, y))
    return float(numpy.trapezoid(y[by_x], x[by_x]) + numpy.trapezoid(x[by_y], y[by_y])) / 2


def _divergence(p: Array, r: Array) -> float:
    """Kullback-Leibler divergence of `p` from the mixture `r`, in nats."""
    known = p > 0
    return float((p[known] * numpy.log(p[known] / r[known])).sum())
