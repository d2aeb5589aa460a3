"""One rank whose reports come from a thread, while children made by fork and by spawn try to report, too. Usage: COUNT"""

import multiprocessing
import sys
import threading

import shoal


def child(answers, run=None):
    run = run or shoal.init()
    said = [str(run.trial)]
    for call in (lambda: run.report({"x": 1}, step=1, group="child"), lambda: run.save({}, step=1), run.should_stop):
        try:
            call()
            said.append("allowed")
        except shoal.ShoalError as error:
            said.append(str(error))
    answers.put(said)


def report(run, count):
    for step in range(count):
        run.report({"x": step}, step=step, group="thread")


if __name__ == "__main__":
    run = shoal.init()
    thread = threading.Thread(target=report, args=(run, int(sys.argv[1])))
    thread.start()
    for way in ("fork", "spawn"):
        context = multiprocessing.get_context(way)
        answers = context.SimpleQueue()
        process = context.Process(target=child, args=(answers,))
        process.start()
        print(way, "|".join(answers.get()), flush=True)
        process.join()
    thread.join()
    run.report({"x": 1}, step=0, group="end")
