"""Topics of documents: the hierarchical Dirichlet process as an estimator."""

import warnings

import numpy as np

from . import _core, _input
from ._estimator import CourseEstimator, _given, _optional, _whole


class HDPTopics(CourseEstimator):
    """Topics of documents, as many as the documents ask for, learned from a stream in one pass.

    A document is a row of counts of words, dense or sparse, or a list of its words. Words that are given as such make the
    vocabulary until the first minibatch is complete; later ones that are not in it are left out and counted. The number
    of topics is a result, ``n_components_``, not a parameter.

    Parameters
    ----------
    gamma : float, optional
        Concentration of the topics: larger expects more of them. Learned unless given, as are the next two.
    alpha0 : float, optional
        Concentration of a document: larger expects more topics in each.
    eta : float, optional
        Pseudo-count of each word in a topic: smaller expects topics of fewer words.
    vocabulary : sequence of str, optional
        The words of the columns, such as ``CountVectorizer.get_feature_names_out()``, where ``X`` has no names itself; the words
        that count, where documents are lists of words.
    batch_size : int, default=256
        Documents of a minibatch.
    bootstrap : int, optional
        Documents of the first minibatch, which is learned alone; by default 2000. All documents, when there are fewer.
    max_new : int, default=50
        Topics that a minibatch after the first may open.
    passes : int, default=1
        How often ``fit`` reads the documents, which it has to have in memory for more than one pass; ``partial_fit`` reads
        its own once.
    workers, schedule, bound
        As in :class:`DPMixture`.
    random_state : int, RandomState or None
        Seed; an int is the ``--seed`` of the command line. It alone fixes the result, whatever ``n_jobs`` is.
    n_jobs : int, optional
        Threads; None means 1, -1 all cores.
    verbose : int, default=0
        1 shows a progress bar.
    callback : callable, optional
        Called with an :class:`anabranch.Event` after each minibatch. Raise ``StopIteration`` in it to end the fit there.

    Attributes
    ----------
    n_components_ : int
        Number of topics.
    components_ : array of shape (n_components_, n_features)
        The probability of each word in each topic; rows sum to 1.
    component_ids_ : array of shape (n_components_,)
    counts_ : array of shape (n_components_,)
        Expected number of words of each topic.
    weights_ : array of shape (n_components_,)
        Share of each topic among the topics of documents.
    gamma_, alpha0_, eta_ : float
        As given or learned.
    vocabulary_ : array of shape (n_features,)
        The words of the columns; their numbers, where they have no names.
    subjects_ : array of shape (n_components_,)
        The number of the subject of each topic, from 0, the largest: topics that have words in common beyond chance. Seven topics
        or fewer are their own subjects.
    n_unknown_words_ : int
        Words that were left out, where documents were lists of words.
    n_samples_seen_, n_features_in_ : int
    feature_names_in_ : array
        When the rows had names.

    Examples
    --------
    >>> import numpy as np
    >>> from anabranch import HDPTopics
    >>> rng = np.random.default_rng(0)
    >>> topics = np.array([[0.5, 0.3, 0.2, 0, 0, 0], [0, 0, 0, 0.2, 0.3, 0.5]])
    >>> X = np.array([rng.multinomial(30, topics[ix % 2]) for ix in range(400)])
    >>> model = HDPTopics(random_state=0).fit(X)
    >>> shares = model.transform(X[:2])
    >>> bool(shares[0].argmax() != shares[1].argmax())
    True
    >>> model.components_.sum(axis=1).round(6).tolist() == [1.0] * model.n_components_
    True
    >>> bool(model.perplexity(X) < 6)
    True
    """

    _engine_class = _core.Topics

    def __init__(
        self,
        gamma=None,
        alpha0=None,
        eta=None,
        *,
        vocabulary=None,
        batch_size=256,
        bootstrap=None,
        max_new=50,
        passes=1,
        workers=None,
        schedule="deterministic",
        bound="paper",
        random_state=None,
        n_jobs=None,
        verbose=0,
        callback=None,
    ):
        self.gamma = gamma
        self.alpha0 = alpha0
        self.eta = eta
        self.vocabulary = vocabulary
        self.batch_size = batch_size
        self.bootstrap = bootstrap
        self.max_new = max_new
        self.passes = passes
        self.workers = workers
        self.schedule = schedule
        self.bound = bound
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    # ------------------------------------------------------------------ documents

    def transform(self, X):
        """The share of each topic in each document, in the order of ``component_ids_``.

        What is missing to 1 is the share of topics that nobody has seen yet. The same as ``anabranch predict --proba``.
        """
        return self._by_component(_core.Topics.proportions, X)

    def score_samples(self, X):
        """Mean log-probability of a word of each document, given the topics of the document; NaN for one without words.

        The same as ``anabranch predict --score``. A document is scored with topics that were found from the same words: see
        ``score`` for words that were held out.
        """
        engine, rows = self._asked(X)
        return engine.log_probability(rows, self._threads())

    def score(self, X, y=None):
        """Mean log-probability of a word by document completion.

        The topics of each document are found from every other of its words, and the words between are scored with them.
        The same as ``anabranch fit --test``.
        """
        engine, rows = self._asked(X)
        found = engine.completion(rows)
        if found is None:
            raise ValueError("X: there is no word that could be held out")
        return found

    def perplexity(self, X):
        """``exp(-score(X))``: between how many words the model cannot decide. Lower is better."""
        return float(np.exp(-self.score(X)))

    # ------------------------------------------------------------------ attributes

    @property
    def components_(self):
        """The probability of each word in each topic; rows sum to 1."""
        return self._attribute("components", "components_")

    @property
    def weights_(self):
        """Share of each topic among the topics of documents."""
        weights = self._attribute("weights", "weights_")
        return weights / weights.sum()

    @property
    def gamma_(self):
        """Concentration of the topics: as given, or as learned."""
        return self._attribute("gamma", "gamma_")

    @property
    def alpha0_(self):
        """Concentration of a document: as given, or as learned."""
        return self._attribute("alpha0", "alpha0_")

    @property
    def eta_(self):
        """Pseudo-count of each word in a topic: as given, or as learned."""
        return self._attribute("eta", "eta_")

    @property
    def vocabulary_(self):
        """The words of the columns; their numbers, where they have no names."""
        self._attribute("ids", "vocabulary_")
        return np.asarray(self._engine.words, dtype=object)

    def top_words(self, n_words=10):
        """The most probable words of each topic, the best first: a list of words for each of ``component_ids_``."""
        names = self.vocabulary_
        best = np.argsort(-self.components_, axis=1, kind="stable")[:, : _whole("n_words", n_words, 1)]
        return [names[row].tolist() for row in best]

    @property
    def subjects_(self):
        """The number of the subject of each topic, from 0, the largest."""
        self._attribute("ids", "subjects_")
        return self._engine.subjects(1)[0]

    def subject_words(self, n_words=8):
        """The words that tell most of each subject, the best first: frequent, and more frequent than elsewhere."""
        self._attribute("ids", "subjects_")
        return self._engine.subjects(_whole("n_words", n_words, 1))[1]

    # ------------------------------------------------------------------ rows

    def _rows(self, X, reset):
        if _input.are_words(X):
            numbers = {word: number for number, word in enumerate(self._engine.words)}
            counts, unknown = _input.count_words(X, numbers, False)
            if unknown:
                warnings.warn(f"{unknown} words are not in the vocabulary, and are left out", stacklevel=3)
            return counts
        if isinstance(X, (list, tuple)) and X and isinstance(X[0], str):
            raise TypeError("X: a document is the list of its words, not a text; split it, or use CountVectorizer")
        _input.refuse_path(X, "HDPTopics takes counts of words, and `anabranch fit --model hdp` reads files")
        return self._validated(X, reset, accept_sparse="csr")

    def _learn_rows(self, X, sample_weight, reset, passes=1):
        if not _input.are_words(X):
            return super()._learn_rows(X, sample_weight, reset, passes)
        if reset:
            self.n_unknown_words_ = 0
        words = self.vocabulary if self.vocabulary is not None else self._engine.words
        numbers = {word: number for number, word in enumerate(words or ())}
        # New words are taken until the first minibatch is complete, wherever documents are cut into calls.
        first = 0 if self.vocabulary is not None or not getattr(self, "_from_words", reset) else self._engine.missing
        self._from_words = self.vocabulary is None
        if passes > 1 and first < len(X):
            raise ValueError(f"passes: {passes} passes over lists of words need a vocabulary, or bootstrap={len(X)} or more")
        for documents, grows in ((X[:first], True), (X[first:], False)):
            if len(documents):
                counts, unknown = _input.count_words(documents, numbers, grows)
                self.n_unknown_words_ += unknown
                self.n_features_in_ = len(numbers)
                self.__dict__.pop("feature_names_in_", None)
                with self._watch(passes * counts.shape[0]) as watch:
                    self._engine.learn(_input.lend(counts), list(numbers), passes, watch.receiver)

    def _names(self):
        if self.vocabulary is None:
            return super()._names()
        words = [str(word) for word in self.vocabulary]
        if len(words) != self.n_features_in_:
            raise ValueError(f"vocabulary: it has {len(words)} words, X has {self.n_features_in_} columns")
        return words

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    # ------------------------------------------------------------------ files and parameters

    @classmethod
    def _from_bytes(cls, data):
        made = cls._made(data, "hdp")
        provenance, process = made["provenance"], made["process"]
        model = cls(
            gamma=_fixed(process["gamma"]),
            alpha0=_fixed(process["alpha0"]),
            bound=process["bound"],
            batch_size=provenance["batch_size"],
            bootstrap=provenance["bootstrap_documents"],
            random_state=provenance["seed"],
        )
        words = made["words"]
        model.n_features_in_ = len(words)
        if words != [str(number) for number in range(len(words))]:
            model.vocabulary = words
        return model._go_on(data)

    def _own_options(self):
        return {
            "gamma": _optional("gamma", self.gamma),
            "alpha0": _optional("alpha0", self.alpha0),
            "eta": _optional("eta", self.eta),
            "passes": _whole("passes", self.passes, 1),
        }

    def _lasting(self, options):
        words = None if self.vocabulary is None else [str(word) for word in self.vocabulary]
        return {**super()._lasting(options), "vocabulary": words}


def _fixed(parameter):
    """A parameter of a stored process, or None where it is learned."""
    given = _given(parameter)
    return None if given == "auto" else given
