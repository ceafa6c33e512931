"""Topics: counts and words."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from test_course import TOPICS, documents_of, same

import anabranch
from anabranch import HDPTopics

X = documents_of(600)


def best_cosines(components):
    """How close each true topic is to the closest one that was found."""
    products = TOPICS @ components.T
    lengths = np.linalg.norm(TOPICS, axis=1)[:, None] * np.linalg.norm(components, axis=1)
    return (products / lengths).max(axis=1)


def test_planted_topics_are_found():
    model = HDPTopics(random_state=0).fit(X)
    assert best_cosines(model.components_).min() > 0.95
    np.testing.assert_allclose(model.components_.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.weights_.sum(), 1.0)
    np.testing.assert_allclose(model.counts_.sum(), X.sum(), rtol=1e-6)
    shares = model.transform(X)
    assert (shares >= 0).all() and (shares.sum(axis=1) <= 1 + 1e-12).all() and (shares.sum(axis=1) > 0.9).all()
    assert model.gamma_ > 0 and model.alpha0_ > 0 and model.eta_ > 0


def test_topics_are_grouped_into_subjects():
    rng = np.random.default_rng(3)
    documents = []
    for ix in range(600):
        subject, topic = ix % 4, ix // 4 % 3
        words = [f"subject{subject}w{n}" for n in rng.integers(8, size=20)] + [f"topic{subject}{topic}w{n}" for n in rng.integers(8, size=20)]
        documents.append(words)
    model = HDPTopics(random_state=0).fit(documents)
    assert model.n_components_ == 12 and model.subjects_.shape == (12,)
    assert np.bincount(model.subjects_).tolist() == [3] * 4
    for words in model.subject_words(5):
        assert all(word.startswith(words[0][:8]) for word in words) and words[0].startswith("subject")
    few = HDPTopics(random_state=0).fit(X)
    assert sorted(few.subjects_.tolist()) == list(range(few.n_components_))


def test_sparse_dense_and_whole_numbers_are_the_same():
    model = HDPTopics(bootstrap=300, random_state=1).fit(X)
    for counts in (sparse.csr_matrix(X), sparse.coo_matrix(X.astype(int)), X.astype(np.float32), X.astype(int).tolist()):
        same(HDPTopics(bootstrap=300, random_state=1).fit(counts), model)
    np.testing.assert_array_equal(model.transform(sparse.csc_array(X)), model.transform(X))
    twice = sparse.csr_matrix((np.ones(6), ([0, 0, 0, 1, 1, 1], [2, 2, 0, 5, 4, 5])), shape=(2, 12))
    np.testing.assert_array_equal(model.transform(twice), model.transform(twice.toarray()))


def test_scores_are_probabilities_of_words():
    model = HDPTopics(random_state=0).fit(X)
    fresh = documents_of(100, seed=1)
    # Twelve words: guessing has the perplexity 12, the truth that of its topics.
    assert 3 < model.perplexity(fresh) < 8
    assert model.perplexity(fresh) == pytest.approx(np.exp(-model.score(fresh)))
    by_hand = np.log(model.transform(fresh[:5]) @ model.components_ + (1 - model.transform(fresh[:5]).sum(axis=1))[:, None] / 12)
    np.testing.assert_allclose(model.score_samples(fresh[:5]), (fresh[:5] * by_hand).sum(axis=1) / fresh[:5].sum(axis=1))
    assert np.isnan(model.score_samples(np.zeros((1, 12)))).all()
    with pytest.raises(ValueError, match="no word that could be held out"):
        model.score(np.zeros((3, 12)))


TEXTS = ["the cat and the dog chased the bird", "dog bird cat bird", "stocks and bonds fell as markets fell", "bonds stocks markets"]


def test_behind_count_vectorizer(tmp_path):
    pipeline = make_pipeline(CountVectorizer(stop_words="english"), HDPTopics(random_state=0, max_new=5))
    shares = pipeline.fit_transform(TEXTS * 40)
    assert shares.shape == (160, pipeline[-1].n_components_)
    main = shares.argmax(axis=1)
    assert main[0] == main[1] != main[2] == main[3]
    words = pipeline[0].get_feature_names_out()
    named = HDPTopics(random_state=0, max_new=5, vocabulary=words).fit(pipeline[0].transform(TEXTS * 40))
    tops = named.top_words(3)
    assert {"bird", "cat", "dog"} in map(set, tops)
    named.save(tmp_path / "model")
    loaded = anabranch.load(tmp_path / "model")
    assert loaded.vocabulary_.tolist() == words.tolist() and loaded.top_words(3) == tops
    np.testing.assert_array_equal(loaded.transform(pipeline[0].transform(TEXTS)), shares[:4])


def words_of(counts):
    """The same documents as lists of words."""
    return [[f"w{word}" for word, count in enumerate(row) for _ in range(int(count))] for row in counts]


def test_lists_of_words_are_counts_of_them(tmp_path):
    names = [f"w{word}" for word in range(12)]
    counted = HDPTopics(bootstrap=300, random_state=1, vocabulary=names).fit(X)
    listed = HDPTopics(bootstrap=300, random_state=1, vocabulary=names).fit(words_of(X))
    same(listed, counted)
    np.testing.assert_array_equal(listed.transform(words_of(X)), counted.transform(X))
    # Without a vocabulary the words are numbered as they come.
    found = HDPTopics(bootstrap=300, random_state=1).fit(words_of(X))
    assert sorted(found.vocabulary_) == sorted(names) and found.n_features_in_ == 12 and found.n_unknown_words_ == 0
    found.save(tmp_path / "model")
    loaded = anabranch.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(words_of(X)), found.transform(words_of(X)))
    assert loaded.top_words(4) == found.top_words(4)


def test_the_vocabulary_grows_with_the_first_minibatch_whatever_the_pieces():
    late = [[*words, "late"] if place >= 250 else words for place, words in enumerate(words_of(X))]
    later = [[*words, "later"] if place >= 320 else words for place, words in enumerate(late)]
    model = HDPTopics(bootstrap=300, batch_size=64, random_state=1).fit(later)
    assert "late" in model.vocabulary_ and "later" not in model.vocabulary_
    assert model.n_unknown_words_ == 280 and model.counts_.sum() == pytest.approx(X.sum() + 350, rel=1e-6)
    pieces = HDPTopics(bootstrap=300, batch_size=64, random_state=1)
    for first in range(0, 600, 70):
        pieces.partial_fit(later[first : first + 70])
        assert pieces.transform(later[:2]).shape == (2, pieces.n_components_)
    same(pieces, model)
    assert pieces.vocabulary_.tolist() == model.vocabulary_.tolist() and pieces.n_unknown_words_ == 280
    blocks = (later[first : first + 70] for first in range(0, 600, 70))
    same(HDPTopics(bootstrap=300, batch_size=64, random_state=1).fit(blocks), model)
    with pytest.warns(UserWarning, match="1 words are not in the vocabulary"):
        model.transform([["w1", "w2", "never"]])


def test_what_is_no_list_of_words_is_told():
    with pytest.raises(TypeError, match="a document is the list of its words, not a text"):
        HDPTopics().fit(TEXTS)
    with pytest.raises(TypeError, match="X: document 2: 7 is not a word"):
        HDPTopics().fit([["a", "b"], ["a", 7]])
