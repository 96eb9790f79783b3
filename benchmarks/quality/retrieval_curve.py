"""nDCG@10 against the number of judgements, beside stochastic training of the same kind of map.

Training queries are taken in random order, one order for each repeat, until they have that many
relevant judgements. Cranfield and SciFact are split as by `retrieval`. "debian" are package
descriptions, and a document is relevant to a query where both are of the same archive section, of which
10 documents are judged for each training query and all for the test queries: judgements as incomplete
as they come. Ours by defaults. Stochastic training of a map of queries that starts at the identity,
in-batch negatives, cosine times 20, AdamW, gradient norms cut at 1, one pair for each judgement:

- llama-index: `EmbeddingAdapterFinetuneEngine` by its defaults: one epoch in batches of 10 in the order
  they come in, rate 2e-5, a tenth of the steps to warm up, then linear decay
- sentence-transformers: `MultipleNegativesRankingLoss` by the trainer's defaults: three epochs in
  shuffled batches of 8, rate 5e-5, no weight decay, linear decay
- ten epochs, 1e-3: LlamaIndex's with that many epochs and that rate

``--device`` is where ours is computed; stochastic training runs on the CPU. With ``--figure``, draws
what --out holds; finished records are not computed again.

    python -m benchmarks retrieval_curve --repeats 3 --device cpu --jobs 1 --out retrieval_curve.jsonl

Data: ir_cranfield_minilm384, ir_scifact_minilm128, debian_minilm384
Minutes: 120 (estimated)
Needs: torch
"""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from conemetric.ranking.measures import ndcg, rank

from ..command import add_device, command_parser
from ..data import JudgedQueries, load, unit_rows
from ..output import Records, markdown_head, markdown_row
from .retrieval import ESTIMATORS, split

COUNTS = {
    "cranfield": (100, 300, 1000),
    "scifact": (30, 100, 300, 900),
    "debian": (100, 1000, 10_000),
}
JUDGED_EACH = 10  # documents of a training query on debian
TEST_QUERIES = 1000  # on debian


@dataclass(frozen=True)
class Recipe:
    """How to train a map stochastically."""

    epochs: int
    batch: int
    rate: float
    warmup: float
    decay: float
    shuffle: bool


RECIPES = {
    "llama-index": Recipe(1, 10, 2e-5, 0.1, 0.01, False),
    "sentence-transformers": Recipe(3, 8, 5e-5, 0.0, 0.0, True),
    "ten epochs, 1e-3": Recipe(10, 10, 1e-3, 0.1, 0.01, False),
}
METHODS = ("frozen", *ESTIMATORS, *RECIPES)
COLOURS = dict(zip(METHODS, ("#888", "#1763a6", "#d95f02", "#c9a", "#7a7", "#a77"), strict=True))
LABELS = {"metric": "RelevanceMetric", "adapter": "QueryAdapter"}


def debian(seed):
    """Training and test collections of package descriptions."""
    data = load("debian_minilm384")
    X = unit_rows(data.X)
    section = data.y
    rng = np.random.default_rng(seed)
    test, train, documents = np.split(rng.permutation(len(X)), [TEST_QUERIES, 3 * TEST_QUERIES])
    members = [np.flatnonzero(section[documents] == name) for name in range(section.max() + 1)]

    def judged(queries, n):
        rows = []
        for number, query in enumerate(queries):
            found = members[section[query]]
            found = found if n is None else rng.choice(found, min(n, len(found)), replace=False)
            rows.append(np.column_stack([np.full(len(found), number), found, found * 0 + 1]))
        return JudgedQueries(X[queries], X[documents], np.concatenate(rows))

    return judged(train, JUDGED_EACH), judged(test, None)


def some(judged, count, seed):
    """The first training queries, in random order, that have ``count`` relevant documents."""
    n_queries = len(judged.queries)
    order = np.random.default_rng([18, seed]).permutation(n_queries)
    asked = judged.relevance[judged.relevance[:, 2] > 0, 0]
    relevant = np.bincount(asked, minlength=n_queries)
    kept = np.zeros(n_queries, bool)
    kept[order[np.cumsum(relevant[order]) <= count]] = True
    return judged.part(kept)


def train(recipe, queries, documents, relevance, seed):
    """Map of queries (transposed: to be multiplied from the right) by stochastic training."""
    import torch

    torch.manual_seed(seed)
    pairs = relevance[relevance[:, 2] > 0, :2]
    Q = torch.as_tensor(queries[pairs[:, 0]])
    B = torch.as_tensor(documents[pairs[:, 1]])
    layer = torch.nn.Linear(Q.shape[1], Q.shape[1], bias=False)
    torch.nn.init.eye_(layer.weight)
    optimiser = torch.optim.AdamW(layer.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    n_steps = recipe.epochs * -(-len(Q) // recipe.batch)
    n_warmup = int(n_steps * recipe.warmup)

    def rate(step):
        if step < n_warmup:
            return step / n_warmup
        return (n_steps - step) / max(1, n_steps - n_warmup)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
    for _ in range(recipe.epochs):
        order = torch.randperm(len(Q)) if recipe.shuffle else torch.arange(len(Q))
        for batch in order.split(recipe.batch):
            mapped = torch.nn.functional.normalize(layer(Q[batch]))
            loss = torch.nn.functional.cross_entropy(
                20 * mapped @ B[batch].T, torch.arange(len(batch))
            )
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            optimiser.step()
            schedule.step()
    return layer.weight.detach().numpy().T


def learn(method, data, device, seed):
    """Functions that map queries and documents, how to compare them, and the C chosen."""
    if method in RECIPES:
        W = train(RECIPES[method], *data, seed)
        return lambda Q: Q @ W, lambda D: D, "cosine", None
    queries, documents, relevance = data
    if device != "cpu":
        import torch

        queries, documents = (torch.as_tensor(X, device=device) for X in (queries, documents))
    fitted = ESTIMATORS[method](random_state=seed).fit(queries, documents, relevance)
    if device != "cpu":
        for name in ("components_", "document_components_"):
            if getattr(fitted, name, None) is not None:
                setattr(fitted, name, getattr(fitted, name).cpu().numpy())
    return fitted.transform_queries, fitted.transform_documents, fitted.model_.similarity, fitted.C_


def measure(name, method, count, repeat, device):
    warnings.simplefilter("ignore")  # of fits that leave the embedding as it is
    training, test = debian(repeat) if name == "debian" else split(name, repeat)
    queries, documents, relevance = test
    record = {"collection": name, "method": method, "count": count, "repeat": repeat}
    if method == "frozen":
        value = float(np.nanmean(ndcg(rank(queries, documents, 10), relevance)))
        return {**record, "ndcg": value, "queries": 0, "seconds": 0.0, "C": None}
    data = some(training, count, repeat)
    began = time.perf_counter()
    map_queries, map_documents, similarity, C = learn(method, data, device, repeat)
    seconds = time.perf_counter() - began
    ranking = rank(map_queries(queries), map_documents(documents), 10, similarity)
    value = float(np.nanmean(ndcg(ranking, relevance)))
    return {**record, "ndcg": value, "queries": len(data.queries), "seconds": seconds, "C": C}


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--collections", nargs="*", default=list(COUNTS), choices=COUNTS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--counts", nargs="*", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    add_device(parser, default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("retrieval_curve.jsonl"))
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args(arguments)
    file = Records(options.out)
    records = file.read()
    done = {(r["collection"], r["method"], r["count"], r["repeat"]) for r in records}
    cells = [
        (name, method, count, repeat)
        for name in options.collections
        for repeat in range(options.repeats)
        for count in sorted(options.counts or COUNTS[name], reverse=True)
        for method in options.methods
    ]
    measured = Parallel(options.jobs, return_as="generator_unordered")(
        delayed(measure)(*cell, options.device) for cell in cells if cell not in done
    )
    for record in measured:
        records.append(record)
        print(record, flush=True)
        file.append(record)
    table(records)
    if options.figure is not None:
        draw(records, options.figure)


def means(records, collection, method):
    """Counts, and the mean nDCG@10 in points of each."""
    found = {}
    for record in records:
        if (record["collection"], record["method"]) == (collection, method):
            found.setdefault(record["count"], []).append(100 * record["ndcg"])
    return {count: float(np.mean(values)) for count, values in sorted(found.items())}


def table(records):
    for name in dict.fromkeys(record["collection"] for record in records):
        methods = [m for m in METHODS if means(records, name, m)]
        print("", *markdown_head([f"{name}, judgements", *methods]), sep="\n")
        curves = {method: means(records, name, method) for method in methods}
        for count in sorted({count for curve in curves.values() for count in curve}):
            cells = [f"{curves[m][count]:.1f}" if count in curves[m] else "" for m in methods]
            print(markdown_row([f"{count:,}", *cells]))


def draw(records, path):
    """What each method gains over the frozen embedding, a panel per collection."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(record["collection"] for record in records))
    figure = Figure(figsize=(4 * len(names), 3.6), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        frozen = means(records, name, "frozen")
        axes.axhline(0, color=COLOURS["frozen"], linestyle="--", label="frozen")
        for method in METHODS:
            gains = {
                judgements: value - frozen[judgements]
                for judgements, value in means(records, name, method).items()
                if method != "frozen" and judgements in frozen
            }
            if gains:
                style = "o-" if method in ESTIMATORS else ".:"
                label = LABELS.get(method, method)
                axes.plot(
                    *zip(*gains.items(), strict=True), style, color=COLOURS[method], label=label
                )
        axes.set(title=name, xscale="log", xlabel="relevant judgements")
    panels[0].set_ylabel("gain in nDCG@10 over the embedding, points")
    panels[-1].legend(fontsize=7)
    figure.savefig(path, dpi=150)
