"""What to learn and how far: chosen by nDCG@10 on held-out training queries.

Candidates, simplest first: the embedding as it is; every column of scores alone; the plain
mix of both, whose weights are tuned; the map alone; and the joint program, which starts at
the mix. Of those with a sure gain (`ranking.candidates`) the one with the most after its standard
error wins, and the simplest of equal ones; so the embedding stays as it is unless one surely gains.

Weights of a mix are judged on queries that did not tune them, and a map on queries it has not
seen; where queries are few, the best map and the best joint program are judged on several splits,
so that the choice depends less on how they fall. Folds are solved side by side, each solve starts
from the nearest one on the path, and C goes up by half decades while that helps, or else
down; other margins and negatives are tried at the best C only. These solves are coarse and
need no certificate, and those of few queries run in the span of the queries.
"""

from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from ..core.advice import AdviceError
from ..core.arrays import like, to_numpy
from ..core.blas import side_by_side
from ..core.progress import all_or_nothing, emit
from ..engine.certificate import relative_gap
from ..engine.dual_quasi_newton import DualQuasiNewton
from .candidates import DEPTH, Candidate, Setting, best_candidate, crossed_mix
from .columns import Pool
from .comparisons import Comparisons, Remembered, TrainingData, query_weights
from .measures import ndcg
from .program import RankingProgram

FIRST_C = 0.1  # where the path of C begins
LEAST_C = 0.03
MOST_C = 320.0
STEP = 0.5  # of the path, in decades
FLAT = 0.2  # standard errors of a gain by which another C has to be better
N_FOLDS = 4
FEWEST_QUERIES = 2 * N_FOLDS  # two or more in every fold
# splits of the last candidates: as many as hold out this many queries in all, and at most
REPEATED_QUERIES = 200
MOST_SPLITS = 3
# queries that bound the time: standard errors of a gain are below two points
MOST_HELD_OUT = 500
MOST_TRAINING = 1000
# relative gap of the fits that only serve the choice: at C, where less is to be gained for
# small ones, and at most
CHOICE_TOL = 0.05
LOOSEST = 0.1
CHOICE_ITER = 25  # iterations of such a fit, at most
MOST_COMPARISONS = 200  # of a query in such a fit, drawn from all


@dataclass(eq=False)
class Choice:
    """The candidates on held-out queries; options of the estimator. See the module docstring."""

    model: RankingProgram
    data: TrainingData
    seed: int
    normalization: str
    n_hard: int
    n_random: int
    tol: float

    def __post_init__(self) -> None:
        n = len(self.data.queries)
        self.training: list[np.ndarray] = []  # masks of the queries that a fold learns from
        tests = []
        for train, test in self._folds(n):
            self.training.append(np.isin(np.arange(n), train))
            tests.append(test)
        self.held_out = np.concatenate(tests) if tests else np.arange(n)[:MOST_HELD_OUT]
        self.fold_of = np.repeat(np.arange(len(tests)), list(map(len, tests)))
        self.judgements = self.data.judgements.select(self.held_out)
        self.columns: Any = self.data.columns and self.data.columns.select(self.held_out)
        self.plain = Setting(0.0, self.model.form.margins[0], 0, 0)  # the embedding as it is
        self.candidates: list[Candidate] = []
        self._splits = [self]  # and further ones of the same queries
        self._compared = cache(partial(self.model.comparisons, self.data, seed=self.seed))
        self._in_folds: dict[Setting, list] = {}
        self._pools: dict[Setting, tuple[Pool, np.ndarray]] = {}
        self._multipliers: dict[Setting, dict[Setting, list]] = {}

    def _folds(self, n):
        """Queries to learn from and to judge on: as many folds as hold out enough, at least two."""
        if n < FEWEST_QUERIES:
            return
        used = min(max(round(MOST_HELD_OUT / (n / N_FOLDS)), 2), N_FOLDS)
        split = KFold(N_FOLDS, shuffle=True, random_state=self.seed).split(np.arange(n))
        draw = np.random.default_rng(self.seed)
        for train, test in islice(split, used):
            yield draw.permutation(train)[:MOST_TRAINING], test[: MOST_HELD_OUT // used]

    def settle(self) -> Setting:
        """Try what there is to try, and choose."""
        if not self.training:
            raise AdviceError(
                f"the choice of C needs {FEWEST_QUERIES} queries with a relevant document, to hold "
                f"some out, and there are {len(self.data.queries)}",
                {"": "collect more judgements", "C": "pass C as a number"},
            )
        with all_or_nothing():
            self._try_unchanged()
            start = None
            if self.columns:
                start = self._try_columns()
            best = self._variants(self._climb(self.later(self.plain))).setting
            last = [best]
            if start is not None:
                joint = replace(best, normalization=start.normalization, weights=start.weights)
                last.append(self._reweighted(self._climb(joint).setting))
            self._judge_again(last)
        # solves that only led to the last ones were judged on fewer splits
        unchanged, *others = (c for c in self.candidates if not c.setting.C or c.setting in last)
        sure = [candidate for candidate in others if candidate.is_sure]
        return best_candidate([unchanged, *sure]).setting

    def given(self, C: float) -> Setting:
        """The setting of a given C, which starts at the best mix where there are columns."""
        start = self.plain
        if self.columns:
            self._try_unchanged()
            start = self._try_columns()
        return replace(self.later(start), C=C)

    def later(self, setting: Setting) -> Setting:
        """The program to which feedback adds: the chosen one, or one of FIRST_C from its scores."""
        if setting.C:
            return setting
        if not setting.embedding:
            mixes = [c for c in self.candidates[1:] if c.setting.embedding and not c.setting.C]
            setting = best_candidate(mixes).setting
        return replace(setting, C=FIRST_C, n_hard=self.n_hard, n_random=self.n_random)

    # ---- without a solve

    def _try_unchanged(self):
        found = self._search((self.model.form.initial_map(self.data.documents),), slice(None))
        self._unchanged = Pool.of(self.columns, [found], self.data.ties)
        self._add(self.plain, self._ndcg(self._unchanged, self.plain, None))

    def _try_columns(self):
        """Every column alone, and a tuned mix for each normalisation; the best mix."""
        n = len(self.columns.names)
        kinds = self.columns.tried(self.normalization)
        alone = replace(self.plain, normalization=kinds[0], embedding=0.0)
        for column in np.eye(n):
            setting = replace(alone, weights=tuple(column))
            self._add(setting, self._ndcg(self._unchanged, setting, column))
        folds = [self.fold_of == fold for fold in range(len(self.training))]
        mixes = []
        for normalization in kinds:
            setting = replace(self.plain, normalization=normalization)
            of_mix = partial(self._ndcg, self._unchanged, setting)
            sizes = self._unchanged.sizes(normalization)
            weights, values = crossed_mix(of_mix, sizes, np.zeros(n), folds)
            mix = replace(setting, weights=tuple(weights.tolist()))
            mixes.append(self._add(mix, values))
        return max(mixes, key=lambda candidate: candidate.mean).setting

    # ---- with solves on folds

    def _climb(self, setting):
        """Candidates whose C goes up while that helps, or else down; the best one."""
        first = best = self._solved(setting)
        for step in (STEP, -STEP):
            # downwards only if the first step up has not helped
            while best is first or step > 0:
                C = float(10 ** round(np.log10(best.setting.C) + step, 3))
                if not LEAST_C <= C <= MOST_C:
                    break
                tried = self._solved(replace(setting, C=C))
                if tried.sure_gain - best.sure_gain <= FLAT * best.standard_error:
                    break
                best = tried
        return best

    def _reweighted(self, setting):
        """Start from weights that suit the map better, where held-out queries show such."""
        pool, weights = self._pools[setting]
        means = {}
        for factor in (1.0, 0.5, 2.0):  # of equal ones the first is taken
            means[factor] = self._ndcg(pool, setting, factor * weights).mean()
        factor = max(means, key=lambda factor: means[factor])
        other = replace(setting, weights=tuple(factor * w for w in setting.weights))
        return best_candidate([self._solved(setting), self._solved(other)]).setting

    def _variants(self, best):
        """Other margins and kinds of negatives, at the best C."""
        setting = best.setting
        tried = [best]
        for margin in self.model.form.margins[1:]:
            tried.append(self._solved(replace(setting, margin=margin)))
        # near documents may be relevant but unjudged: then random negatives alone do better
        if setting.n_hard and setting.n_random:
            drawn = setting.n_hard + setting.n_random
            tried.append(self._solved(replace(setting, n_hard=0, n_random=drawn)))
        return best_candidate(tried)

    def _judge_again(self, settings):
        """Replace the values of these candidates by their means over several splits."""
        n = len(self.data.queries)
        # with so many queries that not all are held out, one split is reliable enough
        if len(self.held_out) < n:
            return
        for number in range(1, min(MOST_SPLITS, -(-REPEATED_QUERIES // n))):
            self._splits.append(replace(self, seed=self.seed + number))
            self._splits[-1]._try_unchanged()
        for i, candidate in enumerate(self.candidates):
            if candidate.setting not in settings:
                continue
            by_query = []
            for split in self._splits:
                values = split._solved(candidate.setting).values
                # by number, since each split holds the queries out in an order of its own
                by_query.append(values[np.argsort(split.held_out)])
            values = np.mean(by_query, axis=0)[self.held_out]
            unchanged = self.candidates[0].values
            self.candidates[i] = Candidate.from_values(candidate.setting, values, unchanged)

    def comparisons(self, setting: Setting) -> Comparisons:
        """All comparisons of a setting."""
        return self._compared(setting.kind)

    def _drawn(self, comparisons):
        """A mask of those that serve the choice."""
        query = comparisons.triplets[:, 0]
        share = MOST_COMPARISONS / np.bincount(query)[query]
        return np.random.default_rng(self.seed).random(len(query)) < share

    def start(self, setting: Setting) -> np.ndarray | None:
        """Multipliers of all comparisons relative to their bounds, the mean of those of the
        folds, and of the last one drawn before where one is not; None where there are none.
        """
        known = self._multipliers.get(setting.kind, {}).get(setting)
        if known is None:
            return None
        comparisons = self.comparisons(setting)
        drawn = self._drawn(comparisons)
        query = comparisons.triplets[drawn, 0]
        total = np.zeros(len(query))
        times = np.zeros(len(query))
        for train, multipliers in zip(self.training, known, strict=True):
            total[train[query]] += to_numpy(multipliers)
            times[train[query]] += 1
        last_drawn = np.maximum(np.cumsum(drawn) - 1, 0)
        return (total / np.maximum(times, 1))[last_drawn]

    def _solved(self, setting):
        """The candidate of a setting with C > 0."""
        for candidate in self.candidates:
            if candidate.setting == setting:
                return candidate
        compared = self._compared_in_folds(setting)
        # the solves begin at the nearest one on the path
        known = self._multipliers.setdefault(setting.kind, {})
        near = min(known, key=setting.distance, default=None)
        results = self._side_by_side(self._solved_in, setting, compared, near and known[near])
        found, weights, known[setting] = map(list, zip(*results, strict=True))
        pool = Pool.of(self.columns, found, self.data.ties)
        weights_of_queries = np.asarray(weights)[self.fold_of]
        self._pools[setting] = (pool, weights_of_queries)
        return self._add(setting, self._ndcg(pool, setting, weights_of_queries))

    def _compared_in_folds(self, setting):
        """What is compared in each fold, made once for all settings of a kind."""
        if setting.kind not in self._in_folds:
            made = self.comparisons(setting)
            made = made.take(self._drawn(made))
            made = replace(made, weights=query_weights(made.triplets))
            mapped = self.model.mapped(self.data, made).like(self.data)
            self._in_folds[setting.kind] = self._side_by_side(self._compared_in, made, mapped)
        return self._in_folds[setting.kind]

    def _compared_in(self, fold, comparisons, mapped):
        """Operator and comparisons of a fold's training queries, those of their span, its basis."""
        kept = self.training[fold][comparisons.triplets[:, 0]]
        part = Remembered.of(mapped, mapped.comparisons.take(kept))
        spanned, basis = self.model.form.spanned(part)
        return self.model.operator(spanned), part.comparisons, spanned.comparisons, basis

    def _solved_in(self, fold, setting, compared, multipliers):
        """What the map of a fold finds for its held-out queries, the weights, the multipliers."""
        operator, comparisons, spanned, basis = compared[fold]
        program = self.model.program(operator, spanned, setting)
        start = multipliers and multipliers[fold] * program.unit
        iterate = self._approached(program, start, setting.C)
        point, weights = self.model.parts(comparisons, iterate.primal_point)
        if basis is not None:  # the prior is all there is outside the span
            prior = like(comparisons.prior, point) / setting.margin
            point = prior + basis @ (point - basis.T @ prior)
        factors = self.model.form.factors(like(comparisons.T, point), point)
        documents = self.data.documents
        found = self._search([like(each, documents) for each in factors], self.fold_of == fold)
        weights = self.model.weights_beside(self.columns, comparisons, setting, weights)
        return found, weights, iterate.dual_point / program.unit

    def _approached(self, program, start, C):
        """The first iterate that is close enough to the optimum for a choice."""
        tol = max(min(CHOICE_TOL * C**0.5, LOOSEST), self.tol)
        steps = DualQuasiNewton().steps(program, start)
        for number, iterate in enumerate(islice(steps, CHOICE_ITER + 1)):
            gap = relative_gap(iterate.primal, iterate.dual)
            if emit("solve", iteration=number, relative_gap=gap, tol=tol) or gap <= tol:
                break
        return iterate

    def _side_by_side(self, function, *arguments):
        """``function(fold, *arguments)`` of every fold, on as many cores as there are."""
        folds = range(len(self.training))
        solves = side_by_side(lambda fold: function(fold, *arguments), folds, self.data.documents)
        return list(solves)

    # ---- judging

    def _search(self, factors, rows):
        """The nearest documents of some held-out queries by a map, as many as decide."""
        queries, documents = self.data.rows
        depth = DEPTH
        listed = None
        if self.columns:
            depth = self.columns.depth(DEPTH)
            listed = self.columns.listed[rows]
        return self.model.form.search(
            factors,
            queries[self.held_out[rows]],
            documents,
            depth,
            listed=listed,
            ties=self.data.ties,
        )

    def _ndcg(self, pool, setting, weights):
        """What decides, of each held-out query."""
        ranking, _ = pool.rank(setting.normalization, weights, DEPTH, setting.embedding)
        return ndcg(ranking, self.judgements, DEPTH)

    def _add(self, setting, values):
        unchanged = self.candidates[0].values if self.candidates else values
        self.candidates.append(Candidate.from_values(setting, values, unchanged))
        return self.candidates[-1]
