"""MAR-INF/accuracy.json: how far a quantised network is from the checkpoint, on inputs like those that it will see."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from marsmith.errors import AccuracyError
from marsmith.ground.serving import Precision, dump_json
from marsmith.ground.values import Count, Share
from marsmith.recipe.recipe import AccuracyLimits


class Accuracy(BaseModel):
    """The whole file. `label_agreement` is the share of `inputs` that both networks give the same best label.

    `max_probability_change` is the largest difference of any label's probability, for any of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    precision: Precision
    inputs: Count
    label_agreement: Share
    max_probability_change: Share

    def to_json(self) -> bytes:
        """The file's bytes."""
        return dump_json(self.model_dump(mode="json"))

    def require(self, limits: AccuracyLimits) -> None:
        """Raise AccuracyError for a network that is further from the checkpoint than the recipe allows."""
        if self.label_agreement < limits.min_label_agreement:
            raise AccuracyError(
                f"In {self.precision} the network gives {self.label_agreement:.2%} of {self.inputs} inputs the "
                f"checkpoint's label, and the recipe asks for {limits.min_label_agreement:.2%}: set another precision, "
                "or accuracy.min_label_agreement to what you can accept."
            )
        if self.max_probability_change > limits.max_probability_change:
            raise AccuracyError(
                f"In {self.precision} a probability is {self.max_probability_change:.4f} from the checkpoint's, "
                f"and the recipe allows {limits.max_probability_change:.4f}: set another precision, or "
                "accuracy.max_probability_change to what you can accept."
            )
