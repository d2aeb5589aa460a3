"""What the log of a search says up to an entry, and what the rules make of the next one: halving with stops and with
promotions, draws from results, populations, and searches in which a program decides. For search_replay.py. Shares no code
with Shoal."""

import bisect
import math
import struct
from collections import Counter

from search_draws import COMPLETED, RUNNING, STOPPED, Observation, draw
from search_programs import Create, Event, Finish, Life, Stop

GOES_ON, STOPS, TOPS_OUT, PAUSES, PROMOTES, CLOSES, ENDS = range(7)
WORDS = ("goes on", "stops", "top", "pauses", "promotes", "closes", "ends")
OVER = 0  # the reason of a verdict: completed
HOW = ("completed", "failed", "stopped")  # what a program is told of a trial's end
STARTS, HAS_MORE, FINISHES = 1, 2, 4  # flags of an answer


class Wrong(Exception):
    """What the records say does not follow from the rule."""


def same(a, b):
    return len(a) == len(b) and all(x == y or (x != x and y != y) for x, y in zip(a, b))


class Entry:
    """A decision of a log, and what its result was worth then."""

    def __init__(self, told):
        self.trial, self.number, self.term, self.coordinator, self.rung, self.decision = told[:6]
        self.step, self.length, self.metric = told[6:]
        self.place, self.of = 0, 0

    def attempt(self):
        return self.trial, self.number, self.term, self.coordinator

    def is_result(self):
        return self.decision <= PAUSES

    def __str__(self):
        return f"trial {self.trial} attempt {self.number} at rung {self.rung}"


class Created:
    """The values with which an attempt is about to begin."""

    def __init__(self, told):
        key, self.is_drawn, self.draw = told
        self.attempt = (*struct.unpack_from(">IIQ", key, 8), bytes(key[24:40]))
        self.trial, self.parent, self.point = self.attempt[0], self.draw[0] - 1, self.draw[1:]  # parent -1: none


class Answer:
    """What a program has said to an event."""

    def __init__(self, told):
        flags, created, stopped = told
        self.starts, self.has_more, self.finishes = bool(flags & STARTS), bool(flags & HAS_MORE), bool(flags & FINISHES)
        self.created = [(trial, draw[1:]) for trial, draw in created]
        self.stopped = [tuple(stop) for stop in stopped]


class State:
    """What a log says up to an entry, by the rule of trials that are stopped."""

    def __init__(self, search):
        self.search = search
        self.entries, self.rungs = [], Counter()
        self.created, self.values = [], {}  # in their order; trial -> its own

    def next_rung(self, trial):
        return self.rungs[trial]

    def follows(self, entry):
        return entry.rung == self.rungs[entry.trial]

    def reports(self, entry):
        """The metrics of the entry's bracket at its rung so far."""
        bracket = self.search.bracket_of(entry.trial)
        return [e.metric for e in self.entries if e.rung == entry.rung and self.search.bracket_of(e.trial) == bracket]

    def decide(self, entry):
        """What the rule says of the result; notes its place among those before it in its bracket at its rung."""
        before = self.reports(entry)
        better = sum(self.search.is_better(other, entry.metric) for other in before)
        entry.place, entry.of = better + 1, len(before) + 1
        if math.isnan(entry.metric):
            return STOPS
        if not self.search.halves:
            return TOPS_OUT
        if entry.rung == self.search.rungs_of(entry.trial) - 1:
            return TOPS_OUT
        return GOES_ON if better < max(1, math.floor(entry.of / self.search.divisor)) else STOPS

    def take(self, entry):
        self.entries.append(entry)
        self.rungs[entry.trial] += 1

    def create(self, created):
        own = self.values.setdefault(created.trial, [])
        if all(other.attempt != created.attempt for other in own):
            self.created.append(created)
            own.append(created)

    def read(self, record, check):
        """Takes a record but what it adopts: its values, then its decisions. Returns how many decisions were taken. `check`:
        it is the log's own, so all of it has to follow from what stands before it; else what the state has already is passed
        over."""
        taken = 0
        for created in (Created(told) for told in record[4:5] if told is not None):
            if check:
                self.check_created(created)
            self.create(created)
        for entry in map(Entry, record[3]):
            if check:
                self.search.check_entry(self, entry)
            elif not self.search.is_possible(entry) or not self.follows(entry):
                continue
            self.search.take(self, entry)
            taken += 1
        return taken

    def expected(self):
        """The trials of which attempts have begun when the search is over."""
        return set(range(self.search.trials))

    def left(self):
        """What is to be decided without a further result, as text; None: nothing."""

    def awaits(self, trial, number, rung):
        """The result of the trial's attempt at that rung is to be judged."""
        last = next((e for e in reversed(self.entries) if e.trial == trial), None)
        return rung == self.rungs[trial] and (last is None or last.decision == GOES_ON)

    # ---- draws ----

    def point_of(self, trial, attempt=None):
        """The values of the attempt, or the newest of the trial."""
        return next((c.point for c in reversed(self.values.get(trial, [])) if attempt in (None, c.attempt)), None)

    def observe(self, index):
        """The observations before the draw of trial `index`, and how many of them are too few to learn from."""
        search = self.search
        startup = search.config.get("n_startup_trials", 10)
        seen = [e for e in self.entries if e.decision in (GOES_ON, STOPS, TOPS_OUT, PAUSES)]
        if search.halves:
            startup = max(startup, search.space.searched + 1)
            lengths = Counter(e.length_due for e in seen)
            length = max((length for length, count in lengths.items() if count >= startup), default=None)
            startup = math.inf if length is None else startup
        observations, results, last_of = [], {}, {entry.trial: entry for entry in self.entries}
        for entry in seen:
            results.setdefault(entry.trial, []).append(entry)
        for trial in self.values.keys() - {index}:
            own = results.get(trial, [])
            at = [e for e in own if not search.halves or e.length_due == length]
            last = (at or own or [None])[-1]
            is_on_the_way = trial not in last_of or last_of[trial].decision in (GOES_ON, PROMOTES, ENDS)
            state = COMPLETED if at else RUNNING if is_on_the_way else STOPPED
            point = self.point_of(trial, last.attempt() if state != RUNNING else None)
            if point is not None:
                metric, length_due = (last.metric, last.length_due) if last else (None, 0)
                observations.append(Observation(trial, state, point, metric, length_due))
        return observations, startup

    def check_created(self, created):
        search, where = self.search, f"trial {created.trial} attempt {created.attempt[1]}"
        if search.space is None or created.trial >= search.trials:
            raise Wrong(f"{where} is drawn, and that is no trial of a search that draws")
        if created.attempt in search.attempts and not same(search.draw(created.attempt), created.draw):
            raise Wrong(f"{where} has the values {search.draw(created.attempt)}, and its log says {created.draw}")
        before = self.values.get(created.trial)
        if not created.is_drawn:
            if not any(same(draw, created.draw) for draw in self.known_draws(created.trial)):
                raise Wrong(f"{where} takes over {created.draw}, which were never drawn")
            return
        if before is not None:
            raise Wrong(f"{where} is drawn again in one log")
        parent, wanted, reason = self.draw(created.trial, where)
        if parent != created.parent or not search.space.same(wanted, created.point):
            raise Wrong(f"{where} has drawn {created.draw}, and {reason} {[parent + 1, *wanted]}")
        search.drawn += 1

    def known_draws(self, trial):
        """With which values an attempt of the trial may begin without a draw of its own."""
        of_attempts = [self.search.draw(attempt) for attempt in self.search.attempts if attempt[0] == trial]
        return [draw for draw in of_attempts if draw is not None] + [own.draw for own in self.values.get(trial, [])]

    def draw(self, trial, where):
        """The trial's parent and values by what stands before it, and what says so."""
        search = self.search
        observations, startup = self.observe(trial)
        point = draw(search.space, observations, search.smaller, startup, search.config["seed"], trial)
        return -1, point, f"{len(observations)} trials before it say"


class Generations(State):
    """What a log says up to an entry, by the rule of populations."""

    def __init__(self, search):
        super().__init__(search)
        self.judged = {}  # trial -> its entry

    def take(self, entry):
        super().take(entry)
        self.judged[entry.trial] = entry

    def decide(self, entry):
        if entry.decision != ENDS:
            return super().decide(entry)
        if not math.isnan(entry.metric) or not self.search.has_ended(entry.trial):
            raise Wrong(f"{entry} ends by its log, and it has no verdict and was not stopped")
        return ENDS

    def parent_of(self, trial, where):
        """The trial of the generation before from which this one goes on; -1: it is of the first generation."""
        size, search = self.search.config["population_size"], self.search
        first = trial - trial % size - size
        if first < 0:
            return -1
        lacking = [member for member in range(first, first + size) if member not in self.judged]
        if lacking:
            raise Wrong(f"{where} is drawn, and trials {lacking} of the generation before it are not judged")

        def place(member):
            entry = self.judged[member]
            is_over, is_nan = entry.decision == ENDS, math.isnan(entry.metric)
            number = 0 if is_over or is_nan else entry.metric if search.smaller else -entry.metric
            return is_over, is_nan, number, member

        ranked = sorted(range(first, first + size), key=place)
        over = sum(self.judged[member].decision == ENDS for member in ranked)
        replaced = math.floor(search.config.get("truncate_fraction", 0.25) * size)
        best = ranked[:min(max(replaced, 1), size - over)]
        worst = ranked[::-1][:max(replaced, over)]
        member = trial - size
        return best[worst.index(member) % len(best)] if best and member in worst else member

    def draw(self, trial, where):
        search, parent = self.search, self.parent_of(trial, where)
        config, point = search.config, None
        if parent >= 0:
            point = self.point_of(parent, self.judged[parent].attempt()) or self.point_of(parent)
        if point is None:
            return parent, search.space.by_chance(config["seed"], trial), "by chance it has"
        if parent == trial - config["population_size"]:
            return parent, point, f"it goes on from trial {parent} with"
        resample, perturb = config.get("resample_probability", 0.25), config.get("perturb_factor", 0.2)
        copied = search.space.of_copy(point, resample, perturb, config["seed"], trial)
        return parent, copied, f"as a copy of trial {parent} it has"

    def left(self):
        lacking = [trial for trial in range(self.search.trials) if trial not in self.judged]
        return f"trials {lacking} are not judged" if lacking else None


class Answered:
    """An event of a log with its answer. `of`: the decision, None: the begin, or that the program has more to say; "other":
    what the log has had before."""

    def __init__(self, state, of, is_own):
        self.answer, self.is_own = state.answer, is_own
        self.entry = of if isinstance(of, Entry) else None
        self.kind = (of if of == "other" else "start" if self.answer.starts else "more" if self.entry is None else
                     "end" if self.entry.decision == ENDS else "report")
        self.taken = set(state.values)  # the trials that there were before the answer
        if self.entry is not None:
            self.point = state.point_of(of.trial, of.attempt()) or state.values[of.trial][0].point

    def told(self, space, created):
        """`created`: by the answer to the event before."""
        if self.entry is None:
            return Event(self.kind, created)
        how = HOW[self.entry.length] if self.kind == "end" else ""
        return Event(self.kind, created, self.entry.trial, self.entry.step, how, self.entry.metric, space.map_of(self.point))

    def check(self, search, actions, has_more):
        where = f"the {self.kind}" + (f" of trial {self.entry.trial}" if self.entry else "")
        stops = [action.trial for action in actions if isinstance(action, Stop)]
        told = [trial for trial, _ in self.answer.stopped], self.answer.finishes, self.answer.has_more
        wanted = stops, any(isinstance(action, Finish) for action in actions), has_more
        if told != wanted:
            raise Wrong(f"{where} is answered with stops, end, more {told}, and the program says {wanted}")
        creates = [action.values for action in actions if isinstance(action, Create)]
        free = [trial for trial in range(search.trials) if trial not in self.taken][:len(creates)]  # no more than max_trials
        created = self.answer.created
        if [trial for trial, _ in created] != free:
            raise Wrong(f"{where} creates trials {[trial for trial, _ in created]}, and the program says {free}")
        for (trial, own), values in zip(created, creates):
            point, is_drawn = search.space.of_map(values, search.config["seed"], trial)
            parameters = zip(search.space.parameters, point, own, is_drawn)
            if len(own) != len(point) or not all(p.has(a, b) if drawn else same([a], [b]) for p, a, b, drawn in parameters):
                raise Wrong(f"{where} creates trial {trial} with {own}, and the program says {point}")
            search.drawn += 1


class Answers(State):
    """What a log says up to an entry of a search in which a program decides: events with their answers."""

    def __init__(self, search):
        super().__init__(search)
        self.last, self.ended = {}, Counter()  # trial -> (number, decision), and the first attempt whose end is not told
        self.events, self.answer = [], None  # of the record that is read
        self.begun = self.has_more = self.finished = False

    def expected(self):
        """All that the program has created, or may create if it has not said that it is done, but for those that it stopped
        before."""
        created = set(self.values) if self.finished else super().expected()
        begun = {attempt[0] for attempt in self.search.attempts}
        return {trial for trial in created if trial in begun or not self.has_stopped(trial, 1)}

    def known_draws(self, trial):
        answers = [Answer(record[5]) for log in self.search.logs.values() for record in log if len(record) > 5]
        return [[0, *point] for answer in answers for created, point in answer.created if created == trial]

    def draw(self, trial, where):
        raise Wrong(f"{where} is drawn, and no program has created it")

    def has_stopped(self, trial, number):
        until, decision = self.last.get(trial, (0, GOES_ON))
        return decision != GOES_ON and until >= number

    def follows(self, entry):
        is_new = entry.number >= self.ended[entry.trial]
        if entry.decision == ENDS:
            return is_new
        is_next = entry.decision <= TOPS_OUT and entry.rung == self.rungs[entry.trial]
        return is_new and is_next and not self.has_stopped(entry.trial, entry.number)

    def decide(self, entry):
        if entry.decision == ENDS:
            self.check_end_of(entry)
            return ENDS
        if entry.rung == self.search.rungs_of(entry.trial) - 1:
            return TOPS_OUT
        return STOPS if entry.trial in [trial for trial, _ in self.answer.stopped] else GOES_ON

    def check_end_of(self, entry):
        """The trial has ended so, at that step and with that metric."""
        verdicts = [verdict for attempt, own in self.search.verdicts.items() if attempt[0] == entry.trial for verdict in own]
        is_completed = any(verdict[0] == OVER for verdict in verdicts)
        is_stopped = any(trial == entry.trial for trial, _ in [*self.search.stops, *self.search.retries])
        is_whole = any(trial == entry.trial and stop[2] for (trial, _), stop in self.search.stops.items())
        good = {"completed": is_completed or is_whole, "failed": bool(verdicts) and not is_completed, "stopped": is_stopped}
        if not good[HOW[entry.length]]:
            raise Wrong(f"{entry} is {HOW[entry.length]} by its log, and not by its verdicts {verdicts}")
        steps = {e.step: e.metric for e in self.entries if e.trial == entry.trial}  # those that the program was told of
        if entry.step not in [0, *steps, *(verdict[1] for verdict in verdicts)]:
            raise Wrong(f"{entry} ends at step {entry.step}, and its verdicts are {verdicts}")
        ahead = [e.step for e in self.entries if e.attempt() == entry.attempt() and e.step > entry.step]
        if ahead:
            raise Wrong(f"{entry} ends at step {entry.step}, and the program was told of its steps {ahead}")
        known, told = self.search.metrics_of(entry.trial), list(steps.values())
        if entry.metric not in known and not (math.isnan(entry.metric) and (not told or math.isnan(told[-1]))):
            raise Wrong(f"{entry} ends with {entry.metric}, it has reported {sorted(known)}, "
                        f"and the program was told {told}")

    def take(self, entry):
        if entry.decision == ENDS:
            self.ended[entry.trial] = entry.number + 1
        else:
            super().take(entry)
            self.last[entry.trial] = entry.number, entry.decision

    def read(self, record, check):
        self.answer = Answer(record[5]) if len(record) > 5 else None
        entries = [Entry(told) for told in record[3]] if self.answer else []
        if check and entries and (self.has_more or not self.begun):
            before = "has more to say" if self.begun else "was not told of the begin"
            raise Wrong(f"{entries[0]} is told, and the program {before}")
        taken = super().read([*record[:3], record[3] if self.answer else [], *record[4:5]], check)
        if self.answer:
            self.take_answer(entries[0] if entries else None, taken > 0, check)
        return taken

    def take_answer(self, entry, is_taken, check):
        answer = self.answer
        is_known = not (is_taken if entry else not self.begun if answer.starts else self.has_more)
        if check and is_known:
            self.check_closing(entry)
        self.events.append(Answered(self, "other" if is_known else entry, check))
        for trial, point in answer.created:
            if trial < self.search.trials and trial not in self.values:
                self.create(Created([bytes(8) + struct.pack(">I", trial) + bytes(28), True, [0, *point]]))
        for trial, until in answer.stopped:
            if trial in self.values and not self.has_stopped(trial, until):
                self.last[trial] = until, CLOSES
        self.begun |= answer.starts
        self.has_more = self.has_more if is_known else answer.has_more
        self.finished |= answer.finishes

    def open_trials(self):
        """Those of whose end the program has not been told."""
        return [trial for trial in self.values if trial not in self.ended]

    def check_closing(self, entry):
        """A record that answers nothing new closes the search: all that was created is over, and the program knows it."""
        answer = self.answer
        if entry or answer.starts:
            raise Wrong(f"{entry or 'the begin'} is answered, and the log has an answer already")
        if not answer.finishes or answer.has_more or answer.created or answer.stopped or self.finished or not self.begun:
            raise Wrong(f"an answer to no event, with {len(answer.created)} creations and {len(answer.stopped)} stops")
        if self.open_trials():
            raise Wrong(f"the search is closed, and trials {self.open_trials()} are not over")

    def check_answers(self):
        """Tells a fresh program of all events, and compares its answers with those that are the log's own. Returns the
        program's life."""
        space = self.search.space
        life, created = Life(self.search.program(), len(space.parameters)), {}
        for event in self.events:
            actions, has_more = life.answer(event.told(space, created))
            if event.is_own and event.kind != "other":
                event.check(self.search, actions, has_more)
            created = {trial: space.map_of(point) for trial, point in event.answer.created}
        return life

    def awaits(self, trial, number, rung):
        return number >= self.ended[trial] and rung == self.rungs[trial] and not self.has_stopped(trial, number)

    def left(self):
        untold = self.open_trials()
        return f"the program was not told of the ends of trials {untold}" if untold else None


class Climber:
    """A trial of a search that promotes."""

    def __init__(self):
        self.metrics = []
        self.place = "climbs"  # or "paused", "done", "ended"; a trial that has ended reports again if a user retries it


class Ladder(State):
    """What a log says up to an entry, by the rule of trials that are paused and promoted."""

    def __init__(self, search):
        super().__init__(search)
        self.climbers = {trial: Climber() for trial in range(search.trials)}
        self.rankings = {}  # (bracket, rung) -> (key, trial) of the trials that have an entry there, the best first
        self.ages = Counter()

    def next_rung(self, trial):
        return len(self.climbers[trial].metrics)

    def follows(self, entry):
        climber, reached = self.climbers[entry.trial], self.next_rung(entry.trial)
        if entry.decision == ENDS:
            return (climber.place, entry.rung) in (("climbs", reached), ("paused", reached - 1))
        if entry.decision in (PROMOTES, CLOSES):
            return climber.place == "paused" and entry.rung == reached - 1
        return climber.place in ("climbs", "ended") and entry.rung == reached

    def ranking(self, trial, rung):
        return self.rankings.setdefault((self.search.bracket_of(trial), rung), [])

    def key(self, metric, age):
        """Sorts entries of a rung: the best first, of equal ones the older one, and behind them those without a number."""
        return (1, 0, age) if math.isnan(metric) else (0, metric if self.search.smaller else -metric, age)

    def enter(self, trial, rung, metric):
        """The trial's entry at the rung; it takes the place of the one that says that the trial has ended."""
        self.ages[rung] += 1
        ranking = self.ranking(trial, rung)
        ranking[:] = [item for item in ranking if item[1] != trial]
        bisect.insort(ranking, (self.key(metric, self.ages[rung]), trial))

    def due(self):
        """The paused trials that are to be promoted, of the highest rung that has any."""
        found = {}
        for (_, rung), ranking in self.rankings.items():
            best = [trial for _, trial in ranking[:math.floor(len(ranking) / self.search.divisor)]]
            due = [t for t in best if self.climbers[t].place == "paused" and len(self.climbers[t].metrics) == rung + 1]
            found.setdefault(rung, []).extend(due)
        return next((sorted(found[rung]) for rung in sorted(found, reverse=True) if found[rung]), [])

    def closable(self):
        """The paused trials at whose rung no trial of their bracket can report any more."""
        lowest = {}
        for trial, climber in self.climbers.items():
            if climber.place in ("climbs", "paused"):
                bracket = self.search.bracket_of(trial)
                lowest[bracket] = min(lowest.get(bracket, math.inf), len(climber.metrics))
        return [trial for trial, climber in self.climbers.items()
                if climber.place == "paused" and len(climber.metrics) == lowest[self.search.bracket_of(trial)]]

    def left(self):
        due = self.due()
        if due:
            return f"trials {due} are to be promoted"
        closable = self.closable()
        return f"trials {closable} are to be closed" if closable else None

    def decide(self, entry):
        rung = entry.rung
        if entry.decision == PROMOTES:
            due = self.due()
            if entry.trial not in due:
                raise Wrong(f"{entry} is promoted, and trials {due} are to be")
            return PROMOTES
        if self.due():
            raise Wrong(f"{entry} {WORDS[entry.decision]}, and trials {self.due()} are to be promoted first")
        if entry.decision == CLOSES:
            if entry.trial not in self.closable():
                raise Wrong(f"{entry} is closed, and trials {self.closable()} are to be")
            return CLOSES
        if self.closable():
            raise Wrong(f"{entry} {WORDS[entry.decision]}, and trials {self.closable()} are to be closed first")
        if entry.decision == ENDS:
            if not math.isnan(entry.metric) or not self.search.has_ended(entry.trial):
                raise Wrong(f"{entry} ends by its log, and it has no verdict and was not stopped")
            return ENDS
        if math.isnan(entry.metric):
            return STOPS
        if rung == self.search.rungs_of(entry.trial) - 1:
            return TOPS_OUT
        others = [item for item in self.ranking(entry.trial, rung) if item[1] != entry.trial]
        better = sum(key < self.key(entry.metric, math.inf) for key, _ in others)
        return GOES_ON if better < math.floor((len(others) + 1) / self.search.divisor) else PAUSES

    def note_place(self, entry):
        trials = [trial for _, trial in self.ranking(entry.trial, entry.rung)]
        entry.of = len(trials)
        entry.place = 1 if math.isnan(entry.metric) else trials.index(entry.trial) + 1

    def take(self, entry):
        self.entries.append(entry)
        climber = self.climbers[entry.trial]
        if entry.decision == PROMOTES:
            climber.place = "climbs"
        elif entry.decision == CLOSES:
            climber.place = "done"
        elif entry.decision == ENDS:
            if climber.place == "climbs":
                self.enter(entry.trial, entry.rung, math.nan)
            climber.place = "ended"
        else:
            self.enter(entry.trial, entry.rung, entry.metric)
            climber.metrics.append(entry.metric)
            climber.place = {GOES_ON: "climbs", PAUSES: "paused"}.get(entry.decision, "done")
        self.note_place(entry)

    def awaits(self, trial, number, rung):
        return self.climbers[trial].place == "climbs" and rung == self.next_rung(trial)
