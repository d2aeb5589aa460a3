"""A stand-in for a training program: gradient descent on a parabola, with the learning rate of the trial."""

import shoal

with shoal.init() as run:
    x = 5.0
    for step in range(1, 41):
        x -= run.hparams["lr"] * 2 * x
        if step % 10 == 0:
            run.report({"loss": x * x}, step=step, group="validation")
        if run.should_stop():
            break
