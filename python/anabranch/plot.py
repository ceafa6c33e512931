"""Pictures of a model with matplotlib, which is imported when the first is drawn. Every function returns the axes."""

import numpy as np

# An ellipse at two standard deviations holds 86 % of a Gaussian in the plane.
_DEVIATIONS = 2.0
_POINTS = 5000


def clusters(model, X=None, *, columns=(0, 1), ax=None, min_weight=0.0, seed=0):
    """Draw the components as ellipses at two standard deviations, over a sample of the rows coloured by component.

    Parameters
    ----------
    model : fitted mixture with ``means_`` and ``covariances_``
    X : array or data frame, optional
        Rows to draw; at most 5000 of them are.
    columns : pair of int, default=(0, 1)
        The columns to draw.
    ax : matplotlib axes, optional
    min_weight : float, default=0.0
        Leave out components with a smaller share.
    seed : int, default=0
        Which rows are drawn.

    Returns
    -------
    ax : matplotlib axes
    """
    from matplotlib.patches import Ellipse

    ax = _axes(ax)
    i, j = columns
    colours = _colours(model.component_ids_)
    if X is not None:
        rows = _some_rows(X, seed)
        labels = model.predict(rows)
        points = np.asarray(rows)
        ax.scatter(points[:, i], points[:, j], s=4, c=colours[labels], alpha=0.35, linewidths=0, rasterized=True)
    for mean, covariance, weight, colour in zip(model.means_, _full(model), model.weights_, colours):
        if weight < min_weight:
            continue
        block = covariance[np.ix_([i, j], [i, j])]
        values, vectors = np.linalg.eigh(block)
        width, height = 2 * _DEVIATIONS * np.sqrt(np.maximum(values[::-1], 0))
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        ax.add_patch(
            Ellipse(mean[[i, j]], width, height, angle=angle, fill=False, edgecolor=colour, linewidth=1.2)
        )
    names = getattr(model, "feature_names_in_", None)
    ax.set_xlabel(names[i] if names is not None else f"column {i + 1}")
    ax.set_ylabel(names[j] if names is not None else f"column {j + 1}")
    ax.set_title(f"{model.n_components_} components of {model.n_samples_seen_:,} rows")
    ax.autoscale_view()
    return ax


def responsibilities(model, X, *, ax=None, max_rows=200):
    """Draw the probability of each component (across) for each row (down), rows sorted by their label."""
    ax = _axes(ax)
    rows = _some_rows(X, 0, max_rows)
    probabilities = model.predict_proba(rows)
    order = np.lexsort((-probabilities.max(axis=1), probabilities.argmax(axis=1)))
    image = ax.imshow(probabilities[order], aspect="auto", interpolation="nearest", cmap="viridis", vmin=0, vmax=1)
    ax.set_xlabel("component")
    ax.set_ylabel(f"row (of {len(order)}, sorted)")
    ax.figure.colorbar(image, ax=ax, label="probability")
    return ax


class Recorder:
    """A callback that keeps every event, for ``growth``.

    >>> import numpy as np
    >>> from anabranch import DPMixture
    >>> from anabranch.plot import Recorder
    >>> recorder = Recorder()
    >>> model = DPMixture(bootstrap=500, random_state=0, callback=recorder)
    >>> _ = model.fit(np.random.default_rng(0).normal(size=(2000, 2)))
    >>> len(recorder.events)
    6
    """

    def __init__(self):
        self.events = []

    def __call__(self, event):
        self.events.append(event)


def growth(events, *, ax=None):
    """Draw the number of components against the rows learned from; ``events`` are a ``Recorder`` or its events."""
    ax = _axes(ax)
    events = getattr(events, "events", events)
    ax.step([event.mass for event in events], [event.components for event in events], where="post")
    ax.set_xlabel("rows")
    ax.set_ylabel("components")
    ax.set_ylim(0, 1.1 * max((event.components for event in events), default=1))
    return ax


def topic_words(model, vocabulary=None, *, n_words=8, n_topics=6, ax=None):
    """Draw the most probable words of the largest topics, or of the largest components of a ``multinomial`` mixture.

    Parameters
    ----------
    model : fitted HDPTopics or mixture of counts
    vocabulary : sequence of str, optional
        The word of each column; those of an HDPTopics, if it is not given.
    n_words, n_topics : int
    ax : array of matplotlib axes, optional
        One for each topic.

    Returns
    -------
    ax : array of matplotlib axes
    """
    vocabulary = np.asarray(model.vocabulary_ if vocabulary is None else vocabulary)
    means = model.components_ if hasattr(model, "components_") else model.means_
    shares = means / means.sum(axis=1, keepdims=True)
    largest = np.argsort(-model.weights_, kind="stable")[:n_topics]
    ax = _row_of_axes(ax, len(largest), (2.2, 0.3 * n_words + 1))
    colours = _colours(model.component_ids_)
    for axes, topic in zip(ax, largest):
        best = np.argsort(-shares[topic], kind="stable")[:n_words][::-1]
        axes.barh(vocabulary[best], shares[topic][best], color=colours[topic])
        axes.set_title(f"{model.component_ids_[topic]}: {100 * model.weights_[topic]:.0f} %", fontsize=9)
        axes.tick_params(labelsize=8)
    return ax


def features(model, shape=None, *, n_features=10, ax=None):
    """Draw the features of a LatentFeatures in the order of what they explain: as pictures, or as curves over the columns.

    Parameters
    ----------
    model : fitted LatentFeatures
    shape : pair of int, optional
        Height and width, when rows are pictures.
    n_features : int, default=10
    ax : array of matplotlib axes, optional
        One for each feature.

    Returns
    -------
    ax : array of matplotlib axes
    """
    explained, components = model.explained_, model.components_
    best = np.argsort(-explained, kind="stable")[:n_features]
    ax = _row_of_axes(ax, len(best), (1.5, 1.9) if shape else (2.2, 1.9))
    most = np.abs(components[best]).max(initial=0)
    colours = _colours(model.component_ids_)
    for axes, feature in zip(ax, best):
        if shape is None:
            axes.plot(components[feature], color=colours[feature])
            axes.set_ylim(-1.05 * most, 1.05 * most)
        else:
            axes.imshow(components[feature].reshape(shape), cmap="RdBu_r", vmin=-most, vmax=most)
            axes.set_xticks([])
            axes.set_yticks([])
        axes.set_title(f"{model.component_ids_[feature]}: {100 * explained[feature] / explained.sum():.0f} %", fontsize=9)
        axes.tick_params(labelsize=8)
    return ax


def _row_of_axes(ax, n, size):
    """Axes beside each other, each of this size."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(1, max(n, 1), figsize=(size[0] * max(n, 1), size[1]), layout="constrained")
    return np.atleast_1d(ax)


def _axes(ax):
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _colours(ids):
    """A colour for each id, the same in every picture."""
    import matplotlib

    palette = np.asarray(matplotlib.colormaps["tab20"].colors)
    return palette[np.asarray(ids) % len(palette)]


def _full(model):
    """Covariances as full matrices, whatever the family keeps."""
    covariances = model.covariances_
    d = model.means_.shape[1]
    if covariances.ndim == 1:
        return covariances[:, None, None] * np.eye(d)
    if covariances.ndim == 2:
        return covariances[:, :, None] * np.eye(d)
    return covariances


def _some_rows(X, seed, most=_POINTS):
    X = X if hasattr(X, "shape") else np.asarray(X)
    n = X.shape[0]
    if n <= most:
        return X
    chosen = np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
    return X.iloc[chosen] if hasattr(X, "iloc") else X[chosen]
