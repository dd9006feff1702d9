"""The result of a run: its classifiers, evaluated on the images to evaluate on."""

from collections.abc import Callable
from collections.abc import Mapping
import functools
import pathlib
from typing import Any

from pnjax import pretrained
from pnjax import probe
from pnjax import runs
from pnjax.train import _evaluation
from pnjax.train import _step
from pnjax.train._experiment import Experiment
from pnjax.train._inputs import Inputs


def make_evaluate(
  experiment: Experiment, task: _step.Task, inputs: Inputs
) -> Callable[..., dict[str, _evaluation.Outcome]]:
  """Return a function from variables to the outcome of each classifier.

  A refit classifier may be its second argument.

  Args:
    experiment: Config, data and devices of the run.
    task: The network.
    inputs: Examples to evaluate on.
  """
  step = experiment.devices.parallelize(
    functools.partial(_step.eval_step, task), donate=False
  )

  def evaluate(
    variables: Mapping[str, Any], refit: probe.Refit | None = None
  ) -> dict[str, _evaluation.Outcome]:
    return _evaluation.evaluate(
      step,
      variables,
      inputs.eval_batches(),
      len(inputs.split),
      experiment.num_classes,
      experiment.devices,
      None if refit is None else refit.classifier,
    )

  return evaluate


def write_result(
  experiment: Experiment,
  workdir: pathlib.Path,
  variables: Mapping[str, Any],
  outcomes: Mapping[str, _evaluation.Outcome],
  refit: probe.Refit | None,
  elapsed: float,
) -> dict[str, Any]:
  """Write the backbone, the refit classifier, the predictions and the result.

  Args:
    experiment: Config, data and devices of the run.
    workdir: Folder of the run.
    variables: Variables of the network.
    outcomes: Outcome of each classifier.
    refit: Refit classifier, if there is one.
    elapsed: Seconds that the run took.

  Returns:
    The contents of `result.json`.
  """
  names = experiment.train_split.class_names
  metrics = {
    classifier: {
      **outcome.metrics,
      "per_class": dict(zip(names, outcome.metrics["per_class"], strict=True)),
    }
    for classifier, outcome in outcomes.items()
  }
  result = {
    **metrics["softmax"],
    "evaluated_on": experiment.test_split.split,
    "num_steps": experiment.num_steps,
    "wall_seconds": round(elapsed, 1),
    "devices": experiment.devices.description,
    **runs.environment(),
  }
  if refit is not None:
    result["refit"] = {
      **metrics["refit"],
      "regularization": refit.regularization,
      "left_out_top1": refit.left_out_top1,
      "num_vectors": refit.num_vectors,
    }
  if experiment.devices.is_first:
    predictions = {name: outcome.predictions for name, outcome in outcomes.items()}
    with runs.writing("results", workdir):
      if refit is not None:
        runs.write_refit(workdir, refit.classifier, variables)
      _write_backbone(experiment, workdir, variables)
      runs.write_result(workdir, result, experiment.test_split.labels, predictions)
  return result


def _write_backbone(
  experiment: Experiment, workdir: pathlib.Path, variables: Mapping[str, Any]
) -> None:
  """Write the backbone to where `backbone.weights` of other runs finds it."""
  pretrained.save_network(
    workdir / pretrained.NETWORK_FILE,
    {
      collection: {"backbone": tree["backbone"]}
      for collection, tree in variables.items()
      if "backbone" in tree
    },
    experiment.config.backbone.name,
    experiment.backbone.recipe,
  )
