"""Time and memory of a private fit, certified release included."""

from privlr import PrivateLogisticRegression

from .solve import problem


class Fit:
    """One fit."""

    params = ([(1_000, 20), (3_000, 100), (30_000, 100)], ["logistic", "capped"])
    param_names = ("shape", "loss")

    def setup(self, shape, loss):
        """Make rows and model once."""
        self.X, self.y = problem(*shape)
        self.model = PrivateLogisticRegression(1.0, loss=loss, classes=[-1, 1])

    def time_fit(self, shape, loss):
        """Seconds."""
        self.model.fit(self.X, self.y)

    def peakmem_fit(self, shape, loss):
        """Bytes."""
        self.model.fit(self.X, self.y)
