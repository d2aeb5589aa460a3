"""The values of a search's trials, computed anew: draws by chance, as train/search/search.h has them, draws from what other
trials have reached, as train/search/tpe.h and parzen.h have them, and the values of copies, as train/search/pbt.h has them.
Shares no code with Shoal."""

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from statistics import NormalDist

CONST, CATEGORICAL, INT, DOUBLE, LOG = range(5)
SOBOL, TPE = 1, 2  # samplers
COMPLETED, STOPPED, RUNNING = range(3)
GOOD_MAX, CANDIDATES = 25, 24
MASK = (1 << 64) - 1
NAN = float("nan")
ABSENT = object()  # a value that is not there
LOG_ROOT = 0.5 * math.log(2 * math.pi)


# ---- random numbers (base/random.h) --------------------------------------------------------------------------------------


def mix(value):
    z = (value + 0x9e3779b97f4a7c15) & MASK
    z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & MASK
    return z ^ (z >> 31)


class Random:
    """xoshiro256**, seeded through splitmix64, of one stream of a seed."""

    def __init__(self, seed, stream):
        seed = mix(seed) ^ ((stream * 0xd1342543de82ef95 + 1) & MASK)
        self.state = [mix((seed + i * 0x9e3779b97f4a7c15) & MASK) for i in range(4)]

    def bits(self):
        s = self.state
        turned = (s[1] * 5) & MASK
        result = (((turned << 7 | turned >> 57) & MASK) * 9) & MASK
        shifted = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = (s[3] << 45 | s[3] >> 19) & MASK
        return result

    def below(self, bound):
        least = (1 << 64) % bound
        value = self.bits()
        while value < least:
            value = self.bits()
        return value % bound

    def uniform(self):
        return (self.bits() >> 11) * 2.0 ** -53


def random_by_name(seed, index, name):
    key = mix(seed)
    for byte in name.encode():
        key = mix(key ^ byte)
    return Random(key, index)


# ---- the search space ----------------------------------------------------------------------------------------------------


class Parameter:
    def __init__(self, packed):
        self.name, self.kind = packed[:2]
        fixed = {CONST: 3, CATEGORICAL: 3, LOG: 6}.get(self.kind, 5)
        more = packed[fixed] if len(packed) > fixed else {}
        self.is_log, self.step, self.when = more.get("log", False), more.get("step", 0), more.get("when", [])
        self.is_later = bool(more)
        self.values = packed[2] if self.kind == CATEGORICAL else [packed[2]]
        self.choices = len(self.values) if self.kind == CATEGORICAL else 0
        if self.kind in (INT, DOUBLE, LOG):
            self.low, self.high = packed[2:4]
        if self.kind == LOG:
            self.base = packed[5]
        if self.kind == INT and not self.is_log and self.step == 0:
            self.step = 1

    def steps(self):
        return round((self.high - self.low) / self.step)

    def at(self, uniform):
        """The value at a place in [0, 1), where equal parts belong to equally likely values."""
        if self.kind == CATEGORICAL:
            return min(int(uniform * self.choices), self.choices - 1)
        if self.is_log:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return min(max(math.floor(math.exp(low + uniform * (high - low)) + 0.5), self.low), self.high)
        if self.step:
            return self.low + min(int(uniform * (self.steps() + 1)), self.steps()) * self.step
        value = self.low + uniform * (self.high - self.low)
        return self.base ** value if self.kind == LOG else value

    def times(self, value, factor):
        """The number of a copy whose parent has `value`, not rounded to nine digits."""
        low, high = sorted((self.base ** self.low, self.base ** self.high)) if self.kind == LOG else (self.low, self.high)
        changed = min(max(value * factor, low), high)
        if self.kind == LOG or (self.kind == DOUBLE and not self.step):
            return changed
        step = self.step or 1
        steps = (changed - low) / step
        steps = math.ceil(steps - 1e-9) if value * factor > value else math.floor(steps + 1e-9)
        return low + min(max(steps, 0), round((high - low) / step)) * step

    def in_order(self, random):
        """The value by the rule of spaces in which no parameter has a property of later versions."""
        if self.kind == CATEGORICAL:
            return random.below(self.choices)
        if self.kind == INT:
            return int(self.low) + random.below(int(self.high) - int(self.low) + 1)
        value = self.low + random.uniform() * (self.high - self.low)
        return self.base ** value if self.kind == LOG else value

    def value_of(self, number):
        """As a program gets it."""
        if self.kind in (CONST, CATEGORICAL):
            return self.values[int(number)]
        return int(number) if self.kind == INT else number

    def number_of(self, value):
        """Of a value that a program has given."""
        if self.kind in (CONST, CATEGORICAL):
            return next((at for at, own in enumerate(self.values) if own == value and type(own) is type(value)), NAN)
        return value

    def has(self, drawn, recorded):
        """Whether a value that was drawn here without rounding is the one that was recorded."""
        if math.isnan(recorded) or math.isnan(drawn) or self.kind in (CONST, CATEGORICAL, INT):
            return drawn == recorded or (math.isnan(recorded) and math.isnan(drawn))
        if self.kind == DOUBLE and recorded in (self.low, self.high):
            return math.isclose(drawn, recorded, rel_tol=1e-8)
        is_rounded = float(Context(prec=9, rounding=ROUND_HALF_UP).create_decimal(Decimal(recorded))) == recorded
        unit = 10.0 ** (math.floor(math.log10(abs(recorded))) - 8) if recorded else 0  # of the ninth digit
        return (is_rounded or bool(self.step)) and abs(drawn - recorded) <= 0.5 * unit + 1e-12 * abs(recorded)


class Space:
    def __init__(self, packed):
        head = packed[0] if packed and isinstance(packed[0], dict) else {}
        self.sampler, self.initial = head.get("sampler", 0), head.get("initial", [])
        self.parameters = [Parameter(p) for p in packed if not isinstance(p, dict)]
        self.searched = sum(p.kind != CONST for p in self.parameters)

    def is_active(self, parameter, point):
        return all(not math.isnan(point[other]) and point[other] in allowed for other, allowed in parameter.when)

    def by_chance(self, seed, index):
        """Trial `index` as the searcher random has it, numbers not rounded."""
        random, by_name = Random(seed, index), any(p.is_later for p in self.parameters)
        point = []
        for p in self.parameters:
            if p.kind == CONST:
                point.append(0)
            elif by_name:
                point.append(p.at(random_by_name(seed, index, p.name).uniform()))
            else:
                point.append(p.in_order(random))
        for number, value in self.initial[index] if index < len(self.initial) else []:
            point[number] = value
        for at, p in enumerate(self.parameters):
            if not self.is_active(p, point):
                point[at] = NAN
        return point

    def of_copy(self, parent, resample, perturb, seed, index):
        """Trial `index` as a copy of one with the values `parent`, numbers not rounded."""
        point = []
        for p, value in zip(self.parameters, parent):
            random = random_by_name(seed, index, p.name)
            chance, place, side = random.uniform(), random.uniform(), random.uniform()
            if not self.is_active(p, point):
                point.append(NAN)
            elif p.kind == CONST:
                point.append(0)
            elif math.isnan(value) or chance < resample:
                point.append(p.at(place))
            elif p.kind == CATEGORICAL:
                point.append(value)
            else:
                point.append(p.times(value, 1 - perturb if side < 0.5 else 1 + perturb))
        return point

    def map_of(self, point):
        """The values as a program gets them."""
        values = {}
        for p, number in zip(self.parameters, point):
            if not math.isnan(number):
                *maps, last = p.name.split(".")
                inner = values
                for name in maps:
                    inner = inner.setdefault(name, {})
                inner[last] = p.value_of(number)
        return values

    def of_map(self, values, seed, index):
        """Trial `index` with the values that a program has given: what it leaves out is drawn, unless it depends on a
        condition. Returns the numbers, and which of them are drawn, and so not rounded."""
        chance, point, is_drawn = self.by_chance(seed, index), [], []
        for at, p in enumerate(self.parameters):
            inner = values
            for name in p.name.split("."):
                inner = inner.get(name, ABSENT) if isinstance(inner, dict) else ABSENT
            is_drawn.append(inner is ABSENT and (not values or not p.when))
            point.append(chance[at] if is_drawn[-1] else NAN if inner is ABSENT else p.number_of(inner))
        return point, is_drawn

    def same(self, drawn, recorded):
        return len(drawn) == len(recorded) and all(p.has(d, r) for p, d, r in zip(self.parameters, drawn, recorded))


# ---- the normal distribution ---------------------------------------------------------------------------------------------


def below(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def log_below(x):
    if x > -25:
        return math.log(below(x))
    term, total = 1.0, 1.0
    for k in range(1, 12):
        term *= -(2 * k - 1) / (x * x)
        total += term
    return -0.5 * x * x - math.log(-x) - 0.5 * math.log(2 * math.pi) + math.log(total)


def log_mass(low, high):
    """log of the probability between low and high."""
    if low > 0:
        low, high = -high, -low
    if high <= 0:
        upper = log_below(high)
        return upper + math.log(-math.expm1(log_below(low) - upper))
    return math.log1p(-below(low) - below(-high))


def truncated(low, high, at):
    """The value below which the part `at` of the probability between low <= 0 and high >= 0 lies."""
    mass = math.exp(log_mass(low, high))
    from_below = below(low) + at * mass
    if from_below <= 0.5:
        return NormalDist().inv_cdf(from_below) if from_below > 0 else low
    from_above = below(-high) + (1 - at) * mass
    return -NormalDist().inv_cdf(from_above) if from_above > 0 else high


# ---- Parzen estimators ---------------------------------------------------------------------------------------------------


class Dimension:
    """The values of a parameter that is searched; `start` ... `end` are the bounds of the kernels."""

    def __init__(self, parameter):
        self.choices, self.is_log = parameter.choices, parameter.is_log or parameter.kind == LOG
        if self.choices:
            return
        self.step = 1 if parameter.is_log else parameter.step
        self.low, self.high = parameter.low, parameter.high
        if parameter.kind == LOG:
            self.low, self.high = parameter.base ** parameter.low, parameter.base ** parameter.high
        self.start, self.end = self.at(self.low - self.step / 2), self.at(self.high + self.step / 2)

    def at(self, value):
        return math.log(value) if self.is_log else value

    def value(self, at):
        """The value at a place between the bounds of the kernels."""
        value = math.exp(at) if self.is_log else at
        if self.step:
            value = self.low + math.floor((value - self.low) / self.step + 0.5) * self.step
        return min(max(value, self.low), self.high)


class Column:
    """The kernels of one dimension, the prior's last."""

    def __init__(self, dimension, values):
        self.dimension, self.kernels = dimension, len(values) + 1
        self.known = {}  # value -> log_densities
        if dimension.choices:
            self.odds = [[1 / self.kernels + (choice == value) for choice in range(dimension.choices)] for value in values]
            self.odds = [[odd / sum(odds) for odd in odds] for odds in self.odds] + [[1 / dimension.choices] * dimension.choices]
            return
        span = dimension.end - dimension.start
        places = [dimension.at(value) for value in values]
        order = sorted(range(len(places)), key=lambda i: places[i])  # of equal ones the older one first
        widths = [span] * len(places)
        for k, i in enumerate(order):
            gaps = [places[i] - places[order[k - 1]]] if k > 0 else []
            gaps += [places[order[k + 1]] - places[i]] if k + 1 < len(order) else []
            widths[i] = max(gaps or [places[i] - dimension.start, dimension.end - places[i]])
        least = span / min(100, 1 + self.kernels)
        centres = [*places, dimension.start + span / 2]
        widths = [min(max(width, least), span) for width in widths] + [span]
        masses = [log_mass((dimension.start - c) / w, (dimension.end - c) / w) for c, w in zip(centres, widths)]
        self.normals = list(zip(centres, widths, masses))

    def log_densities(self, value):
        """Of each kernel, at the value."""
        if value not in self.known:
            self.known[value] = self.compute(value)
        return self.known[value]

    def compute(self, value):
        if self.dimension.choices:
            return [math.log(odds[int(value)]) for odds in self.odds]
        d = self.dimension
        if d.step:
            low, high = d.at(value - d.step / 2), d.at(value + d.step / 2)
            return [log_mass((low - c) / w, (high - c) / w) - mass for c, w, mass in self.normals]
        at = d.at(value)
        return [-0.5 * ((at - c) / w) ** 2 - LOG_ROOT - math.log(w) - mass for c, w, mass in self.normals]

    def draw(self, kernel, uniform):
        if self.dimension.choices:
            return pick(self.odds[kernel], uniform)
        d, (c, w, _) = self.dimension, self.normals[kernel]
        return d.value(c + w * truncated((d.start - c) / w, (d.end - c) / w, uniform))


def pick(weights, uniform):
    """The first whose sum with those before it exceeds the place in [0, 1)."""
    total = 0
    for at, weight in enumerate(weights):
        total += weight
        if uniform < total:
            return at
    return len(weights) - 1


class Parzen:
    """The density of points, the oldest first."""

    def __init__(self, dimensions, points):
        count = len(points)
        ramp = max(count - 25, 0)
        weights = [1 / count + (1 - 1 / count) * i / (ramp - 1) if ramp > 1 else 1 / count for i in range(ramp)]
        weights += [1.0] * (count - ramp) + [1.0]
        self.weights = [weight / sum(weights) for weight in weights]
        self.columns = [Column(dimension, [point[at] for point in points]) for at, dimension in enumerate(dimensions)]

    def log_density(self, point):
        kernels = [column.log_densities(value) for column, value in zip(self.columns, point)]
        logs = [math.log(weight) + sum(densities) for weight, *densities in zip(self.weights, *kernels)]
        most = max(logs)
        return most + math.log(sum(math.exp(one - most) for one in logs))

    def draw(self, random):
        kernel = pick(self.weights, random.uniform())
        return [column.draw(kernel, random.uniform()) for column in self.columns]


# ---- the tree-structured Parzen estimator --------------------------------------------------------------------------------


class Observation:
    """What is known of a trial; `metric` None: it has reported nothing."""

    def __init__(self, trial, state, point, metric=None, step=0):
        self.trial, self.state, self.point, self.metric, self.step = trial, state, point, metric, step


def rank(observation, smaller):
    """Sorts trials that are over, the best first."""
    metric = observation.metric
    if metric is None or math.isnan(metric):
        place = (2 if metric is None else 1, 0)
    else:
        place = (0, metric if smaller else -metric)
    is_stopped = observation.state == STOPPED
    return is_stopped, is_stopped and metric is None, -observation.step if is_stopped else 0, place, observation.trial


def draw_best(dimensions, columns, good, bad, random):
    """The candidate with the largest ratio of the good density to the bad one."""
    def points(observations, most=None):
        having = [[o.point[c] for c in columns] for o in sorted(observations, key=lambda o: o.trial)
                  if not any(math.isnan(o.point[c]) for c in columns)]
        return having if most is None else having[-most:]

    better = Parzen(dimensions, points(good))
    worse = Parzen(dimensions, points(bad, min(max(2560 // len(dimensions), 50), 1000)))
    candidates = [better.draw(random) for _ in range(CANDIDATES)]
    return max(candidates, key=lambda point: better.log_density(point) - worse.log_density(point))  # the first of equals


def draw(space, observations, smaller, startup, seed, index):
    """The values of trial `index`, numbers not rounded."""
    over = sorted((o for o in observations if o.state != RUNNING), key=lambda o: rank(o, smaller))
    if len(over) < startup or index < len(space.initial):
        return space.by_chance(seed, index)
    count = min((len(over) + 9) // 10, GOOD_MAX)
    good, bad = over[:count], over[count:] + [o for o in observations if o.state == RUNNING]
    point = [0 if p.kind == CONST else NAN for p in space.parameters]
    together = [at for at, p in enumerate(space.parameters) if p.kind != CONST and not p.when]
    random = random_by_name(seed, index, "")  # no parameter has this name
    if together:
        dimensions = [Dimension(space.parameters[at]) for at in together]
        for at, value in zip(together, draw_best(dimensions, together, good, bad, random)):
            point[at] = value
    for at, p in enumerate(space.parameters):
        if not space.is_active(p, point):
            point[at] = NAN
        elif p.when and p.kind != CONST:
            point[at], = draw_best([Dimension(p)], [at], good, bad, random_by_name(seed, index, p.name))
    return point
