"""Measures topics next to tomotopy, gensim and scikit-learn, and writes docs/topics.md.

    python bench/topics.py --data DIR --binary target/release/anabranch [--write] [--only bbc]
    python bench/topics.py --only planted [--draws 2] [--most 1000]

DIR has NAME_bow.npz (indptr, indices, data, shape of a sparse matrix, documents × words) and NAME_vocab.txt for each corpus.
Document completion, the same for everybody: the words of a test document go in turn to an observed and to a held-out half; the
topics of the document are found from the first, and the second is scored, per word. Everything runs on one thread.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import record
import scipy.sparse as sparse

ROOT = Path(__file__).resolve().parent.parent
CORPORA = {"bbc": 325, "newsarticles": 400, "news20": 2775}
WORKERS = [1, 2, 4, 8, 16, 32, 64]
SMALLEST = 1e-12
# Planted topics: how many there are, and in how many documents.
PLANTED = {"disjoint": "words of their own", "dirichlet": "`Dirichlet(0.05)` over 1,000 words", "overlap": "the same over 500 words, three in ten of them common words"}
NUMBERS = [1, 3, 5, 10, 20, 50]
SIZES = [300, 1000, 5000, 10000]
DRAWS = 5
LARGE = 0.01
# The rival is given no more than it can do in minutes.
RIVAL_DOCUMENTS = 1000


def load(folder: Path, name: str) -> sparse.csr_matrix:
    """The corpus as a matrix, documents × words."""
    parts = np.load(folder / f"{name}_bow.npz")
    return sparse.csr_matrix((parts["data"].astype(float), parts["indices"], parts["indptr"]), shape=tuple(parts["shape"]))


def split(corpus: sparse.csr_matrix, held_out: int, seed: int = 0) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Train and test documents, at random."""
    order = np.random.default_rng(seed).permutation(corpus.shape[0])
    return corpus[order[held_out:]].sorted_indices(), corpus[order[:held_out]].sorted_indices()


def halves(test: sparse.csr_matrix) -> tuple[list, list]:
    """The words of each document in turn, repeated ones apart, as `fit --test` does it."""
    observed, scored = [], []
    for ix in range(test.shape[0]):
        row = test[ix]
        parts: tuple[dict, dict] = ({}, {})
        turn = ix % 2
        for word, count in zip(row.indices, row.data.astype(int)):
            more, fewer = (count + 1) // 2, count // 2
            shares = (more, fewer) if turn == 0 else (fewer, more)
            turn = (turn + count % 2) % 2
            for part, share in zip(parts, shares):
                if share:
                    part[int(word)] = int(share)
        observed.append(parts[0])
        scored.append(parts[1])
    return observed, scored


def completion(theta: list[np.ndarray], phi: np.ndarray, scored: list[dict]) -> float:
    """Mean log-probability of a held-out word."""
    total, words = 0.0, 0
    for shares, document in zip(theta, scored):
        for word, count in document.items():
            total += count * np.log(max(float(shares @ phi[:, word]), SMALLEST))
            words += count
    return total / words


def tokens(document: dict) -> list[str]:
    return [str(word) for word, count in document.items() for _ in range(count)]


def documents(matrix: sparse.csr_matrix) -> list[dict]:
    rows = (matrix[ix] for ix in range(matrix.shape[0]))
    return [dict(zip(map(int, row.indices), map(int, row.data))) for row in rows]


def tomotopy(train: list[dict], observed: list[dict], scored: list[dict], n_words: int, topics: int | None, **flags) -> dict:
    """HDPModel, or LDAModel when the number of topics is told."""
    import tomotopy as tp

    started = time.process_time()
    model = tp.HDPModel(seed=1, **flags) if topics is None else tp.LDAModel(k=topics, seed=1, **flags)
    for document in train:
        if document:
            model.add_doc(tokens(document))
    model.train(200, workers=1)
    seconds = time.process_time() - started
    living = [k for k in range(model.k) if topics is not None or model.is_live_topic(k)]
    phi = np.full((len(living), n_words), SMALLEST)
    known = [int(word) for word in model.used_vocabs]
    for row, k in enumerate(living):
        phi[row, known] = model.get_topic_word_dist(k)
    phi /= phi.sum(axis=1, keepdims=True)
    theta = []
    for document in observed:
        if not document:
            theta.append(np.full(len(living), 1 / len(living)))
            continue
        made = model.make_doc(tokens(document))
        model.infer(made, iterations=100)
        shares = np.array(made.get_topic_dist())[living]
        theta.append(shares / shares.sum())
    return {"cpu": seconds, "topics": len(living), "ll": completion(theta, phi, scored)}


def gensim(train: list[dict], observed: list[dict], scored: list[dict], n_words: int, **flags) -> dict:
    """HdpModel, turned into the LDA model that it suggests."""
    from gensim.models import HdpModel

    names = {word: str(word) for word in range(n_words)}
    started = time.process_time()
    model = HdpModel([list(document.items()) for document in train], names, random_state=1, **flags)
    alpha, beta = model.hdp_to_lda()
    seconds = time.process_time() - started
    phi = beta / beta.sum(axis=1, keepdims=True)
    theta = []
    for document in observed:
        words, counts = np.array(list(document), int), np.array(list(document.values()), float)
        shares = alpha / alpha.sum()
        mixed = np.full(len(alpha), counts.sum() / len(alpha))
        for _ in range(100):
            joint = (alpha + mixed)[:, None] * phi[:, words]
            mixed = (joint / joint.sum(axis=0) * counts).sum(axis=1)
        shares = (alpha + mixed) / (alpha + mixed).sum()
        theta.append(shares)
    return {"cpu": seconds, "topics": int((mixed.size)), "ll": completion(theta, phi, scored)}


def scikit(train: sparse.csr_matrix, observed: list[dict], scored: list[dict], topics: int) -> dict:
    """LatentDirichletAllocation, told the number of topics."""
    from sklearn.decomposition import LatentDirichletAllocation

    started = time.process_time()
    model = LatentDirichletAllocation(topics, max_iter=20, random_state=1, learning_method="batch").fit(train)
    seconds = time.process_time() - started
    phi = model.components_ / model.components_.sum(axis=1, keepdims=True)
    matrix = sparse.lil_matrix((len(observed), train.shape[1]))
    for ix, document in enumerate(observed):
        for word, count in document.items():
            matrix[ix, word] = count
    theta = list(model.transform(matrix.tocsr()))
    return {"cpu": seconds, "topics": topics, "ll": completion(theta, phi, scored)}


def ours(binary: Path, folder: Path, flags: list[str], model: Path | None = None, train: str = "train.npz") -> dict:
    """`anabranch fit --model hdp`."""
    command = [binary, "fit", folder / train, "--model", "hdp", "--vocabulary", folder / "vocab.txt", "--threads", "1"]
    command += ["--test", folder / "test.npz", "--json", "--quiet", *flags]
    if model:
        command += ["--out", model]
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{run.stderr}")
    result = json.loads(run.stdout)
    return {"cpu": result["cpu_seconds"], "topics": result["components"], "ll": result["test_log_likelihood"], "npmi": result["coherence"]}


def unigram(train: sparse.csr_matrix, scored: list[dict]) -> float:
    counts = np.asarray(train.sum(axis=0)).ravel() + 0.1
    return completion([np.ones(1)] * len(scored), (counts / counts.sum())[None, :], scored)


def measure(binary: Path, data: Path, name: str, work: Path) -> dict:
    corpus = load(data, name)
    train, test = split(corpus, CORPORA[name])
    folder = work / name
    folder.mkdir(parents=True, exist_ok=True)
    sparse.save_npz(folder / "train.npz", train)
    sparse.save_npz(folder / "test.npz", test)
    (folder / "vocab.txt").write_text((data / f"{name}_vocab.txt").read_text())
    observed, scored = halves(test)
    train_documents = [document for document in documents(train) if document]
    n_words = corpus.shape[1]
    stream = ["--bootstrap", "500", "--batch-size", "100"] if name == "bbc" else ["--batch-size", "500"]
    rows = []

    def row(label: str, result: dict) -> None:
        rows.append({"method": label, **result})
        print(name, label, {key: round(value, 4) for key, value in result.items() if value is not None}, flush=True)

    row("word frequencies", {"cpu": None, "topics": None, "ll": unigram(train, scored)})
    if name == "bbc":
        row("anabranch, one minibatch", ours(binary, folder, []))
    for workers in (1, 16):
        flags = [*stream, "--workers", str(workers), "--schedule", "deterministic"]
        row(f"anabranch, stream, {workers} worker{'s' * (workers > 1)}", ours(binary, folder, flags, folder / f"w{workers}.model"))
    row("anabranch, stream, 1 worker, 2 passes", ours(binary, folder, [*stream, "--workers", "1", "--passes", "2", "--schedule", "deterministic"]))
    hdp = [{}, {"eta": 0.1, "initial_k": 50}] if name == "news20" else [{}, {"eta": 0.1, "initial_k": 20}, {"eta": 0.2, "initial_k": 20}, {"eta": 0.1, "initial_k": 20, "alpha": 1.0, "gamma": 1.0}]
    for flags in hdp:
        told = ", ".join(f"{key} {value}" for key, value in flags.items()) or "its defaults"
        row(f"tomotopy HDPModel, 200 iterations, {told}", tomotopy(train_documents, observed, scored, n_words, None, **flags))
    if name == "bbc":
        row("gensim HdpModel, its defaults", gensim(train_documents, observed, scored, n_words))
    row("tomotopy LDAModel told K = 50, eta 0.1", tomotopy(train_documents, observed, scored, n_words, 50, eta=0.1))
    if name == "bbc":
        row("scikit-learn LDA told K = 50", scikit(train, observed, scored, 50))
    topics = json.loads(subprocess.run([str(binary), "inspect", str(folder / "w1.model"), "--json"], capture_output=True, text=True, check=True).stdout)
    sparse.save_npz(folder / "all.npz", corpus)
    ours(binary, folder, [], folder / "all.model", train="all.npz")
    result = {"agreement": agreement(binary, data, name, folder / "all.model", folder / "all.npz")}
    result |= {"rows": rows, "topics": topics["components"], "documents": [train.shape[0], test.shape[0]], "words": n_words}
    if name == "bbc":
        result["identification"] = identification(binary, folder)
    return result


def identification(binary: Path, folder: Path) -> dict:
    """Held-out likelihood over workers with identification on and off, from nothing, without a first minibatch alone."""
    found: dict[str, list] = {"on": [], "off": []}
    for workers in WORKERS:
        for switch in found:
            flags = ["--identify", switch, "--bootstrap", "0", "--batch-size", "25", "--workers", str(workers), "--schedule", "deterministic"]
            result = ours(binary, folder, flags)
            found[switch].append((workers, result["ll"], result["topics"]))
            print("identification", switch, workers, result, flush=True)
    return found


def agreement(binary: Path, data: Path, name: str, model: Path, corpus: Path) -> dict | None:
    """Normalised mutual information of the largest subject of a document with its known category, next to LDA told the number."""
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.metrics import normalized_mutual_info_score

    parts = np.load(data / f"{name}_bow.npz")
    if "labels" not in parts.files:
        return None
    shown = json.loads(subprocess.run([str(binary), "inspect", str(model), "--json"], capture_output=True, text=True, check=True).stdout)
    lines = subprocess.run([str(binary), "predict", str(model), str(corpus), "--proba"], capture_output=True, text=True, check=True).stdout.splitlines()
    place = {column: ix for ix, column in enumerate(lines[0].split(","))}
    shares = np.nan_to_num(np.genfromtxt(lines[1:], delimiter=","))
    # A topic that no document has is not predicted.
    topics = [[place[f"topic_{id}"] for id in subject["topics"] if f"topic_{id}" in place] for subject in shown["subjects"]]
    subjects = np.stack([shares[:, own].sum(axis=1) for own in topics], axis=1)
    labels, told = parts["labels"], len(np.unique(parts["labels"]))
    rival = LatentDirichletAllocation(told, max_iter=20, random_state=1).fit_transform(load(data, name))
    score = lambda found: float(normalized_mutual_info_score(labels, found.argmax(axis=1)))  # noqa: E731
    return {"subjects": len(shown["subjects"]), "categories": told, "nmi": score(subjects), "nmi of LDA told the number": score(rival)}


def draw(kind: str, k: int, n: int, rng: np.random.Generator) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Documents of about 80 words of `k` topics, and the words of these."""
    n_words = {"disjoint": 20 * max(k, 5), "dirichlet": 1000, "overlap": 500}[kind]
    if kind == "disjoint":
        topics = np.repeat(np.eye(k), n_words // k, axis=1) * k / n_words
    else:
        topics = rng.dirichlet(np.full(n_words, 0.05), size=k)
    if kind == "overlap":
        common = 1 / (np.arange(n_words) + 3)
        topics = 0.7 * topics + 0.3 * common / common.sum()
    shares = rng.dirichlet(np.full(k, min(0.3, 2.7 / k)), size=n)
    lengths = np.maximum(rng.poisson(80, size=n), 5)
    chances = shares @ topics
    chances /= chances.sum(axis=1, keepdims=True)
    return sparse.csr_matrix(np.array([rng.multinomial(*pair) for pair in zip(lengths, chances)], dtype=float)), topics


def words_of(model: Path) -> np.ndarray:
    """How often each topic has each word, from a model file (docs/model-format.md)."""
    data = model.read_bytes()
    length = int.from_bytes(data[:8], "little")
    place = json.loads(data[8 : 8 + length])["component.stats"]
    first, last = (8 + length + offset for offset in place["data_offsets"])
    return np.frombuffer(data[first:last], "<f8").reshape(place["shape"])[:, 1:]


def cosine(topics: np.ndarray, found: np.ndarray) -> float:
    """Mean over the true topics of the cosine with the nearest one."""
    unit = lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)  # noqa: E731
    # A topic may have lost all its words.
    found = found[found.any(axis=1)]
    return float((unit(topics) @ unit(found).T).max(axis=1).mean())


def count_rival(corpus: sparse.csr_matrix) -> int:
    """Topics with a hundredth of the words that tomotopy's HDP finds."""
    import tomotopy as tp

    model = tp.HDPModel(seed=1)
    for document in documents(corpus):
        model.add_doc(tokens(document))
    model.train(200, workers=1)
    counts = np.array([count for topic, count in enumerate(model.get_count_by_topics()) if model.is_live_topic(topic)])
    return int((counts >= LARGE * counts.sum()).sum())


def planted(binary: Path, work: Path, draws: int, most: int) -> list[dict]:
    """Topics with a hundredth of the words, next to the true number, and how near the true ones are."""
    folder = work / "planted"
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed, n in ((seed, n) for seed in range(draws) for n in SIZES if n <= most):
        for k, kind in ((k, kind) for k in NUMBERS for kind in PLANTED):
            corpus, topics = draw(kind, k, n, np.random.default_rng([seed, k, n]))
            sparse.save_npz(folder / "train.npz", corpus)
            row: dict = {"kind": kind, "k": k, "documents": n, "draw": seed, "found": {}, "cosine": {}, "cpu": {}}
            for workers in (1, 16):
                command = [binary, "fit", folder / "train.npz", "--model", "hdp", "--threads", "1", "--json", "--quiet", "--out", folder / "model"]
                command += ["--workers", workers, "--schedule", "deterministic"]
                told = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout
                words, method = words_of(folder / "model"), f"{workers} worker{'s' * (workers > 1)}"
                row["found"][method] = int((words.sum(axis=1) >= LARGE * words.sum()).sum())
                row["cosine"][method] = round(cosine(topics, words), 4)
                row["cpu"][method] = round(json.loads(told)["cpu_seconds"], 2)
            if seed == 0 and n <= RIVAL_DOCUMENTS:
                row["found"]["tomotopy HDPModel"] = count_rival(corpus)
            rows.append(row)
            print(row, flush=True)
        record.write("topics-planted", f"bench/topics.py --only planted --draws {draws} --most {most}", rows, planted_texts(rows), ("tomotopy",))
    return rows


def planted_texts(rows: list[dict]) -> dict[str, str]:
    methods = ["1 worker", "16 workers", "tomotopy HDPModel"]
    lines = [
        "| topics | true | documents | anabranch, 1 worker | anabranch, 16 workers | cosine | tomotopy HDPModel |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, k, n in sorted({(row["kind"], row["k"], row["documents"]) for row in rows}, key=lambda cell: (cell[2], cell[1], cell[0])):
        same = [row for row in rows if (row["kind"], row["k"], row["documents"]) == (kind, k, n)]
        one, many, rival = (", ".join(str(row["found"][method]) for row in same if method in row["found"]) for method in methods)
        lines.append(f"| {kind} | {k} | {n:,} | {one} | {many} | {min(min(row['cosine'].values()) for row in same):.3f} | {rival} |")
    texts = {"table": "\n" + "\n".join(lines) + "\n"}
    for method in methods:
        told = [(row["k"], row["found"][method]) for row in rows if method in row["found"]]
        right, above = sum(k == found for k, found in told), sum(found > 1.5 * k for k, found in told)
        near = [row["cosine"][method] for row in rows if method in row["cosine"]]
        texts[method.replace(" ", "-")] = f"right in {right} of {len(told)}, more than one and a half times as many in {above}" + (
            f", cosine at least 0.95 in {sum(c >= 0.95 for c in near)}" if near else ""
        )
    return texts


PLANTED_PART = f"""## Planted topics

Topics with at least one word in a hundred, in documents of about 80 words. {"; ".join(f"{kind}: {told}" for kind, told in PLANTED.items())}.
Cosine: the mean over the true topics of that with the nearest one found, in the worst draw. tomotopy's HDP with its defaults has the first draw alone.

<!-- figures: topics-planted.table --><!-- end -->

1 worker: <!-- figures: topics-planted.1-worker --><!-- end -->. 16 workers: <!-- figures: topics-planted.16-workers --><!-- end -->. tomotopy:
<!-- figures: topics-planted.tomotopy-HDPModel --><!-- end -->.
"""


def picture(found: dict, path: Path) -> None:
    from pictures import OURS, RIVAL, plt, save

    figure, axes = plt.subplots(figsize=(5, 2.6))
    for switch, colour in (("on", OURS), ("off", RIVAL)):
        workers, likelihood, _ = zip(*found[switch])
        axes.plot(workers, likelihood, "o-", color=colour, label=f"identification {switch}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(WORKERS, [str(n) for n in WORKERS])
    axes.set_xlabel("logical workers")
    axes.set_ylabel("held-out log-likelihood per word")
    axes.legend(frameon=False)
    save(figure, path)


def table(rows: list[dict]) -> str:
    lines = ["| method | per word | topics | CPU seconds |", "|---|---|---|---|"]
    for row in rows:
        cell = lambda value, form: "" if value is None else format(value, form)  # noqa: E731
        lines.append(f"| {row['method']} | {row['ll']:.4f} | {cell(row['topics'], 'd')} | {cell(row['cpu'], '.1f')} |")
    return "\n".join(lines)


def page(results: dict) -> str:
    parts = ["""# Topics

`anabranch fit --model hdp` finds topics in documents with a hierarchical Dirichlet process: as many topics as the documents ask
for, in one pass over a stream, with any number of workers. This page is written by `make bench-topics DATA=DIR`.

Document completion: the words of each test document go in turn to an observed and to a held-out half. The topics of the document
are found from the first; the score is the mean log-probability of a word of the second. Split at random with seed 0, one thread,
all methods in the same run, CPU seconds of the fit alone. "Stream" is `--bootstrap 500 --batch-size 100` for bbc and `--batch-size 500` for news20 (first
minibatch of 2,000 documents); "one minibatch" is the defaults. tomotopy's HDP is shown with its defaults and with settings that suit it better; the topics of gensim's HDP are its
truncation. A number of topics that predicts well is larger than the number of subjects that a reader would count: the topics below are fine-grained.
"""]
    parts.append(PLANTED_PART)
    for name, result in results.items():
        train, test = result["documents"]
        parts.append(f"## {name}: {train:,} + {test:,} documents, {result['words']:,} words\n\n{table(result['rows'])}\n")
        if result.get("agreement"):
            found = result["agreement"]
            parts.append(f"Subjects: {found['subjects']} where there are {found['categories']} categories; normalised mutual information with them {found['nmi']:.2f}, of scikit-learn's LDA told the number {found['nmi of LDA told the number']:.2f}.\n")
        if "identification" in result:
            parts.append("![Held-out likelihood over workers, with identification on and off](pictures/topics-identification.svg)\n")
            parts.append("From nothing, minibatches of 25 documents, no first minibatch alone:\n")
            lines = ["| workers | " + " | ".join(str(n) for n in WORKERS) + " |", "|---" * (len(WORKERS) + 1) + "|"]
            for switch in ("on", "off"):
                found = result["identification"][switch]
                lines.append(f"| {switch}: per word | " + " | ".join(f"{ll:.3f}" for _, ll, _ in found) + " |")
                lines.append(f"| {switch}: topics | " + " | ".join(str(topics) for _, _, topics in found) + " |")
            parts.append("\n".join(lines) + "\n")
        parts.append(f"The topics of the streamed fit with one worker, the largest first ({len(result['topics'])} in all):\n")
        lines = ["| id | share | NPMI | top words |", "|---|---|---|---|"]
        for topic in result["topics"][:40]:
            npmi = "" if topic["coherence"] is None else f"{topic['coherence']:.2f}"
            words = " ".join(word for word, _ in topic["top_words"])
            lines.append(f"| {topic['id']} | {100 * topic['weight']:.1f} % | {npmi} | {words} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/anabranch")
    parser.add_argument("--only", choices=["planted", *CORPORA])
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws of the planted topics")
    parser.add_argument("--most", type=int, default=max(SIZES), help="documents of the planted topics at most")
    parser.add_argument("--write", action="store_true", help="write docs/topics.md and its picture")
    args = parser.parse_args()
    work = ROOT / "target/quality/topics"
    if args.only in (None, "planted"):
        planted(args.binary, work, args.draws, args.most)
    if args.only == "planted":
        return
    results = {name: measure(args.binary, args.data, name, work) for name in CORPORA if args.only in (None, name)}
    version = subprocess.run([str(args.binary), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    kept = {"build": version, "date": time.strftime("%Y-%m-%d"), "command": "make bench-topics", **results}
    (ROOT / "bench/results").mkdir(exist_ok=True)
    (ROOT / "bench/results/topics.json").write_text(json.dumps(kept, indent=1) + "\n")
    if args.write:
        if "bbc" in results:
            picture(results["bbc"]["identification"], ROOT / "docs/pictures/topics-identification.svg")
        (ROOT / "docs/topics.md").write_text(page(results))
        subprocess.run([ROOT / "scripts/figures"], check=True)


if __name__ == "__main__":
    main()
